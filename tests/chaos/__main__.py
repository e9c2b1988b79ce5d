"""Random trials for some time, and a report of what was tried.

    python -m tests.chaos --minutes 60            # a seed is chosen and printed
    python -m tests.chaos --seed 7                # 30 seconds
    python -m tests.chaos --only types --seed 7 --trials 1     # a failure again
    python -m tests.chaos --only parsers --minutes 60          # fuzzers alone

With `--minutes`, or `--check`, kernels check their indexes, and are compiled apart. Trials on
Spark run where `--spark` is given, or for a minute or more. A line a minute says what was tried so
far; the report comes at the end, and also where the run is interrupted or told to end (SIGTERM).
A trial that takes longer than `--limit` has failed; one that meets the end of the run is cut.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import os
import runpy
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_SIGNALS: list[str] = []  # what came: Spark may put an error of its own in the place of Ended
RENEWED = 40  # trials on Spark before a session and its JVM make room for others
GRACE = 60  # seconds that the last trial may take after the end


class Ended(BaseException):
    """Whoever runs this told it to end, or a trial's time is over; no trial may catch it."""


def check_indexes() -> None:
    """From now on kernels check their indexes; Numba's cache cannot tell such kernels apart."""
    kernels_hash = runpy.run_path(str(ROOT / "tools" / "environments.py"))["kernels_hash"]
    os.environ["NUMBA_BOUNDSCHECK"] = "1"
    os.environ["NUMBA_CACHE_DIR"] = str(ROOT / "build" / "chaos-kernels" / kernels_hash())


def _end(number: int, _: Any) -> None:
    signal.alarm(30)  # again, where something swallows the exception
    _SIGNALS.append(signal.Signals(number).name)
    raise Ended


def _arguments(arguments: list[str] | None, names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=None, help="of the first trial")
    parser.add_argument("--trials", type=int, default=None, help="stop after so many of each")
    parser.add_argument("--only", action="append", choices=names, help="may come again")
    parser.add_argument("--check", action="store_true", help="kernels check their indexes")
    parser.add_argument("--spark", action="store_true", help="trials on Spark in any case")
    parser.add_argument("--limit", type=int, default=600, help="seconds that a trial may take")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    if any("minutes" in word or "check" in word for word in arguments or sys.argv):
        check_indexes()
    with tempfile.TemporaryDirectory(prefix="ensue-chaos-", ignore_cleanup_errors=True) as folder:
        before = tempfile.tempdir
        os.environ["TMPDIR"] = tempfile.tempdir = folder  # so that what is left behind is seen
        try:
            return _run(arguments, Path(folder))
        finally:
            tempfile.tempdir = before


def _run(arguments: list[str] | None, folder: Path) -> int:
    from tests.chaos import on_spark, trials
    from tests.chaos.report import Report, say

    given = _arguments(arguments, [*trials.TRIALS, *on_spark.TRIALS])
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(4))
    names = given.only or [*trials.TRIALS]
    if not given.only and (given.spark or given.minutes >= 1):
        names += on_spark.TRIALS
    say(f"chaos: seed {seed}, {given.minutes:g} minutes of {', '.join(names)}")
    report, until = Report(seed, folder), time.monotonic() + 60 * given.minutes
    why = "ended"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, _end)
    try:
        for number in itertools.count(seed):
            if given.trials is not None and number - seed >= given.trials:
                break
            for name in names:
                skipped = name in on_spark.TRIALS and (number - seed) % on_spark.EVERY
                if time.monotonic() < until and (given.only or not skipped):
                    _trial(report, name, number, given.limit, until)
                    report.minute()
            if time.monotonic() >= until:
                break
    except Ended:
        why = f"stopped by {next(name for name in _SIGNALS if name != 'SIGALRM')}"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    report.end(why)
    on_spark.stop()
    return min(len(report.failed), 1)


def _trial(report: Any, name: str, seed: int, limit: int, until: float) -> None:
    from tests.chaos import on_spark, trials

    report.last_seed = seed
    left = int(until - time.monotonic()) + GRACE
    faulthandler.dump_traceback_later(2 * limit, exit=True)  # nothing can be told from in here
    report.trials[name] += 1
    problem: BaseException | None = None
    try:
        signal.alarm(min(limit, left))
        trials.run(name, seed, trials.TRIALS | on_spark.TRIALS)
    except on_spark.LeftOutError as reason:
        report.trials[name] -= 1
        report.left_out[f"{name}: {reason}"] += 1
    except (Exception, Ended) as raised:
        problem = raised
    except KeyboardInterrupt:  # Spark puts its own handler of SIGINT
        _SIGNALS.append("SIGINT")
    signal.alarm(0)
    faulthandler.cancel_dump_traceback_later()
    told = [name for name in _SIGNALS if name != "SIGALRM"]
    if told or (_SIGNALS and left < limit):
        report.cut.append(f"{name} {seed}")
    elif problem is not None or _SIGNALS:
        traceback.print_exception(problem, limit=-8)
        report.fail(name, seed)
    if told:
        raise Ended
    spark_trials = sum(report.trials[name] for name in on_spark.TRIALS)
    if problem is not None or (name in on_spark.TRIALS and spark_trials % RENEWED == 0):
        on_spark.stop()
    _SIGNALS.clear()


if __name__ == "__main__":
    sys.exit(main())
