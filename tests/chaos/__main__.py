"""Random trials for some time, and a report of what was tried.

    python -m tests.chaos --minutes 60            # a seed is chosen and printed
    python -m tests.chaos --seed 7                # 30 seconds
    python -m tests.chaos --only types --seed 7 --trials 1     # a failure again

With `--minutes`, or `--check`, kernels check their indexes, and are compiled apart. Trials on
Spark run where `--spark` is given, or for a minute or more.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECKED = ROOT / "build" / "chaos-kernels"


def check_indexes() -> None:
    """From now on kernels check their indexes; Numba's cache cannot tell such kernels apart."""
    os.environ["NUMBA_BOUNDSCHECK"] = "1"
    os.environ["NUMBA_CACHE_DIR"] = str(CHECKED)


def main(arguments: list[str] | None = None) -> int:
    if any("minutes" in word or "check" in word for word in arguments or sys.argv):
        check_indexes()
    from tests.chaos import on_spark, trials

    every = trials.TRIALS | on_spark.TRIALS
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=None, help="of the first trial")
    parser.add_argument("--trials", type=int, default=None, help="stop after so many of each")
    parser.add_argument("--only", action="append", choices=list(every), help="may come again")
    parser.add_argument("--check", action="store_true", help="kernels check their indexes")
    parser.add_argument("--spark", action="store_true", help="trials on Spark in any case")
    given = parser.parse_args(arguments)
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(4))
    names = given.only or [*trials.TRIALS]
    if not given.only and (given.spark or given.minutes >= 1):
        names += on_spark.TRIALS
    begun, tried, failed = time.monotonic(), Counter[str](), 0
    print(f"chaos: seed {seed}, {given.minutes:g} minutes of {', '.join(names)}", flush=True)
    number = seed
    while time.monotonic() - begun < 60 * given.minutes:
        if given.trials is not None and number - seed >= given.trials:
            break
        for name in names:
            if name in on_spark.TRIALS and not given.only and (number - seed) % on_spark.EVERY:
                continue
            try:
                trials.run(name, number, every)
                tried[name] += 1
            except on_spark.LeftOutError as reason:
                tried[f"{name} (left out: {reason})"] += 1
            except Exception:
                failed += 1
                traceback.print_exc(limit=-8)
                print(f"again: ./dev chaos --only {name} --seed {number} --trials 1", flush=True)
        number += 1
    on_spark.stop()
    for name, count in tried.items():
        print(f"{count:>9,}  {name}")
    print(f"{sum(tried.values()):>9,}  trials, {failed} failed, seeds {seed} to {number - 1}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
