"""SuSe: figures 7 to 11 of the paper as commands, and the promises about speed and recall.

Each writes its points, which `./dev bench papers` draws. `--repeat` is the number of streams
(seeds), `--rows` the length of a stream. Figures 12 and 13, on real data, are in `suse_data.py`.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

import ensue
from benchmarks import flink_cep
from benchmarks import suse_streams as s
from benchmarks.harness import OUT, Measurement, Target, compare, report, say, write_rows
from benchmarks.rows import Settings, baseline

# CPU per element of the authors' C++ and the share of matches ever in the summary, 10,000 events.
AUTHORS = {
    (100, 100): (90e-6, 0.56, 10),
    (500, 100): (330e-6, 0.75, 10),
    (100, 250): (None, 0.045, 1),
    (500, 250): (8e-3, 0.985, 50),
    (500, 500): (39e-3, None, 100),
}

FLINK_SECONDS = 120
SIZES = (100, 250, 500, 1_000, 2_500, 5_000)


def run_targets(settings: Settings) -> bool:
    """suse             time per event and matches ever held, against the authors' C++."""
    length, seeds = settings.rows or 10_000, max(settings.repeat, 10)
    s.feed(s.QUERY, s.table(s.letters(500, s.LETTERS, "uniform", 0), s.LETTERS), 50, 20, "benefit")
    found, targets, rows = [], [], []
    for (size, window), (theirs, share, factor) in AUTHORS.items():
        measured = Measurement(f"|S| = {size}, window {window}", length)
        shares = []
        for seed in range(seeds):
            events = s.table(s.letters(length, s.LETTERS, "uniform", seed), s.LETTERS)
            run = s.feed(s.QUERY, events, size, window, "benefit")
            clock = time.process_time()
            measured.cpu.append(run.seconds)
            measured.wall.append(run.seconds)
            measured.others.append(0.0)
            total = s.query(s.QUERY, window).summarize(events, size=length).count()
            held = s.feed(s.QUERY, events, size, window, "benefit", detect=True).detected
            shares.append(held / max(total, 1))
            rows.append(
                {"size": size, "window": window, "seed": seed, "seconds": run.seconds,
                 "share": shares[-1], "checked in": time.process_time() - clock}
            )  # fmt: skip
        each = measured.cpu_median / length
        measured.notes = {"µs / event": f"{each * 1e6:.1f}", "ever held": f"{np.mean(shares):.3f}"}
        found.append(measured)
        if theirs is not None:
            targets.append(Target(f"{measured.name}: times faster", theirs / each, factor, False))
        if share is not None:
            name = f"{measured.name}: share ever held"
            targets.append(Target(name, float(np.mean(shares)), share, False))
    write_rows("suse", rows)
    return report("SuSe, a(b*c)*d(e|f)g*, uniform stream", found, targets, "suse-targets")


def run_figure7(settings: Settings) -> bool:
    """suse-figure7     recall against FIFO and random: size, window, shares, triggers, length."""
    length, seeds = settings.rows or 10_000, settings.repeat
    rows = []
    for shape in ("uniform", "zipf", "normal"):
        for size in SIZES if shape == "uniform" else (250,):
            for window in (10, 50, 100, 250):
                for seed in range(seeds):
                    rows += _against(s.QUERY, s.LETTERS, length, shape, size, window, 25, seed)
    for asked in (25, 50):
        for seed in range(seeds):
            rows += _against(s.QUERY, s.LETTERS, length, "uniform", 500, 100, asked, seed, part="c")
    for letters in (2, 4, 6, 8, 10, 12):
        alphabet = "abcdefghijkl"[:letters]
        for seed in range(seeds):
            text = " ".join(alphabet)
            rows += _against(text, alphabet, length, "zipf", 500, 100, 25, seed, part="d")
    write_rows("suse-figure7", rows)
    main = [row for row in rows if row["part"] == "ab"]
    worst = min(np.mean([r["improvement"] for r in main if r["size"] == k]) for k in SIZES)
    say(f"figure 7: least mean improvement over a baseline {worst:.3g}")
    return bool(worst >= 1)


def _against(
    text: str, alphabet: str, length: int, shape: str, size: int, window: int, asked: int,
    seed: int, part: str = "ab", process: str = "uniform",
) -> list[dict[str, Any]]:  # fmt: skip
    events = s.table(s.letters(length, alphabet, shape, seed), alphabet)
    stops = s.triggers(length, asked, seed, process)
    ours = s.feed(text, events, size, window, "benefit", stops)
    found = []
    for rule in ("fifo", "random"):
        theirs = s.feed(text, events, size, window, rule, stops, seed=seed)
        found.append(
            {
                "part": part, "pattern": text, "letters": len(alphabet), "shape": shape,
                "size": size, "window": window, "triggers": asked, "seed": seed,
                "baseline": rule, "improvement": s.improvement(ours.counts, theirs.counts),
            }
        )  # fmt: skip
    return found


def run_figure8(settings: Settings) -> bool:
    """suse-figure8     full benefit against present only: improvement, recall, detected."""
    length, seeds = settings.rows or 2_000, settings.repeat
    rows = []
    for size in (100, 250, 500):
        for window in (50, 100, 250, 500):
            for seed in range(seeds):
                for process in ("uniform", "poisson"):
                    rows.append(_ablation(length, size, window, seed, process))
    write_rows("suse-figure8", rows)
    roomy = [r for r in rows if r["size"] >= r["window"]]
    targets = []
    for process in ("uniform", "poisson"):
        mine = [r["recall"] for r in roomy if r["process"] == process]
        targets.append(Target(f"absolute recall, |S| ≥ window, {process}", float(np.mean(mine)),
                              0.80, False))  # fmt: skip
    for target in targets:
        say(str(target))
    say(f"present benefit only: {np.mean([r['present recall'] for r in roomy]):.3f}")
    return all(target.met for target in targets)


def _ablation(length: int, size: int, window: int, seed: int, process: str) -> dict[str, Any]:
    events = s.table(s.letters(length, s.LETTERS, "uniform", seed), s.LETTERS)
    stops = s.triggers(length, 10, seed, process)
    truth = s.feed(s.QUERY, events, length, window, "fifo", stops)
    ours = s.feed(s.QUERY, events, size, window, "benefit", stops, detect=True)
    present = s.feed(s.QUERY, events, size, window, "present", stops, detect=True)
    total = max(truth.summary.count(), 1)
    return {
        "size": size, "window": window, "seed": seed, "process": process,
        "improvement": s.improvement(ours.counts, present.counts),
        "recall": s.recall(ours.counts, truth.counts),
        "present recall": s.recall(present.counts, truth.counts),
        "detected": ours.detected / total, "present detected": present.detected / total,
    }  # fmt: skip


def run_figure9(settings: Settings) -> bool:
    """suse-figure9     Kleene stars (count, place), disjunctions and overlapping letters."""
    length, seeds = settings.rows or 10_000, settings.repeat
    twelve = "abcdefghijkl"
    rows = []
    for seed in range(seeds):
        chance = np.random.default_rng(seed)
        for stars in (0, 2, 4, 6, 8):
            chosen = set(chance.choice(range(1, 12), stars, replace=False).tolist())
            text = " ".join(c + ("*" if i in chosen else "") for i, c in enumerate(twelve))
            rows += _sensitive("a", text, stars, twelve, length, seed)
        for place, text in {"none": "a b c d", "first": "a* b c d", "middle": "a b* c d",
                            "last": "a b c d*"}.items():  # fmt: skip
            rows += _sensitive("b", text, place, "abcd", length, seed)
        for ors in (0, 1, 3, 5, 7):
            words = [" ".join(chance.choice(list(twelve), 5).tolist()) for _ in range(ors + 1)]
            rows += _sensitive("c", " | ".join(words), ors, twelve, length, seed)
        text = " ".join(twelve[:10])
        for overlap in (0, 2, 4, 6):
            extra = " ".join(chance.choice(list(twelve[:10]), overlap).tolist())
            joined = f"{text} | {extra} {text}" if overlap else text
            rows += _sensitive("d", joined, overlap, twelve[:10], length, seed)
    write_rows("suse-figure9", rows)
    return True


def _sensitive(
    part: str, text: str, value: Any, alphabet: str, length: int, seed: int
) -> list[dict[str, Any]]:
    rows = _against(text, alphabet, length, "uniform", 500, 100, 25, seed, part=part)
    return [row | {"value": value} for row in rows]


def run_figure10(settings: Settings) -> bool:
    """suse-figure10    time, throughput, latency and memory by size and window."""
    length = settings.rows or 20_000
    events = s.table(s.letters(length, s.LETTERS, "uniform", 0), s.LETTERS)
    s.feed(s.QUERY, events.slice(0, 500), 50, 20, "benefit")
    _latency(events, 50, 50)
    rows = []
    for size in (50, 100, 250, 500, 1_000):
        for window in (50, 100, 250, 500, 1_000):
            run = s.feed(s.QUERY, events, size, window, "benefit")
            least, most = _latency(events, size, window)
            rows.append(
                {
                    "size": size, "window": window, "seconds": run.seconds,
                    "per second": length / run.seconds, "latency": run.seconds / length,
                    "least latency": least, "greatest latency": most,
                    "summary bytes": run.summary.metrics.bytes,
                    "resident MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                }
            )  # fmt: skip
    write_rows("suse-figure10", rows)
    return True


def _latency(events: pa.Table, size: int, window: int) -> tuple[float, float]:
    """Least and greatest time of one event, through the arrays the summary keeps."""
    summary = s.query(s.QUERY, window).summarize(size=size)
    summary.insert(events.slice(0, 4_000))
    store = next(iter(summary._stores.values()))
    machine = summary._selection.machine
    known = machine.automaton.labels
    kinds = events["kind"].to_pylist()[4_000:4_500]
    classes = np.array([machine.class_of(1 << known.index(kind)) for kind in kinds])
    times = events["t"].to_numpy()[4_000:4_500]
    found = []
    for i in range(len(times)):
        clock = time.perf_counter()
        store.insert(times[i : i + 1], classes[i : i + 1], np.zeros(1), times[i : i + 1])
        found.append(time.perf_counter() - clock)
    return min(found), max(found)


def run_figure11(settings: Settings) -> bool:
    """suse-figure11    ABCD on AⁱBⁱCⁱDⁱ: exact counts, time per insert, pyrematch, FlinkCEP."""
    rows, per_insert = [], {}
    for length in (16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192):
        i = length // 4
        word = "A" * i + "B" * i + "C" * i + "D" * i
        events = s.table(np.array(["ABCD".index(c) for c in word]), "ABCD")
        best, count, insert = float("inf"), 0, float("inf")
        for _ in range(max(settings.repeat, 3)):
            clock = time.perf_counter()
            summary = s.query("A B C D", length).summarize(size=length)
            summary.insert(events)
            insert = min(insert, time.perf_counter() - clock)
            count = summary.count()
            best = min(best, time.perf_counter() - clock)
        assert count == i**4, (count, i)
        per_insert[length] = insert / length
        rows.append({"length": length, "engine": "ensue", "seconds": best, "matches": count,
                     "insert seconds per event": per_insert[length]})  # fmt: skip
        if length <= 128:
            seconds = _rematch(word)
            if seconds is not None:
                rows.append({"length": length, "engine": "pyrematch", "seconds": seconds,
                             "matches": i**4})  # fmt: skip
            rows += _flink(word, length)
    write_rows("suse-figure11", rows)
    flat = Target("time per insert, 8,192 against 1,024 events",
                  per_insert[8_192] / per_insert[1_024], 1.5)  # fmt: skip
    say(str(flat))
    return flat.met


def _flink(word: str, length: int) -> list[dict[str, Any]]:
    """FlinkCEP's row of figure 11; nothing where it is not here or does not finish."""
    if not flink_cep.available():
        return []
    try:
        peer = flink_cep.run(word, length, "ABCD", limit=FLINK_SECONDS)
    except subprocess.TimeoutExpired:
        say(f"FlinkCEP did not finish {length} letters in {FLINK_SECONDS} seconds")
        return []
    assert peer.answer == (length // 4) ** 4, (peer.answer, length)
    return [{"length": length, "engine": "FlinkCEP", "seconds": peer.cpu_median,
             "matches": peer.answer}]  # fmt: skip


_REMATCH = """
import sys, time
sys.path.insert(0, sys.argv[1])
import pyrematch
word = sys.argv[2]
clock = time.perf_counter()
query = pyrematch.reql(r"!x{A}.*!y{B}.*!z{C}.*!w{D}")
count = sum(1 for _ in query.finditer(word))
print(time.perf_counter() - clock, count)
"""


def _rematch(word: str) -> float | None:
    """Seconds of pyrematch, kept in a folder of its own; None where it cannot be installed."""
    folder = OUT.parent / "data" / "pyrematch"
    if not folder.exists():
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--target",
            str(folder),
            "pyrematch",
        ]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            say("pyrematch could not be installed; figure 11 goes without it")
            return None
    done = subprocess.run(
        [sys.executable, "-c", _REMATCH, str(folder), word],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    if done.returncode:
        say(f"pyrematch failed: {done.stderr.strip().splitlines()[-1:]}")
        return None
    seconds, count = done.stdout.split()
    assert int(count) == (len(word) // 4) ** 4, (count, word)
    return float(seconds)


def run_keys(settings: Settings) -> bool:
    """suse-keys        A B* C on 10,000 keys × 1,000 events on Spark, against the shuffle alone."""
    keys, each = 10_000, 1_000
    total = settings.rows or keys * each
    keys = max(total // each, 1)
    path = settings.folder / f"suse-keys-{total}.parquet"
    spark = settings.spark
    if not path.exists():
        spark.range(total).selectExpr(
            f"id % {keys} AS user", "id AS ts",
            "element_at(array('A', 'B', 'C'), 1 + CAST(pmod(hash(id), 3) AS INT)) AS kind",
        ).write.parquet(str(path))  # fmt: skip
    df = spark.read.parquet(str(path))
    found = ensue.pattern("A B* C", types="kind").select("any").partition_by("user").order_by("ts")

    def shuffled() -> Any:
        return (
            baseline(df, SimpleNamespace(key="user", columns=("user", "ts", "kind")))
            .selectExpr("sum(n)")
            .collect()[0][0]
        )

    def summarized() -> Any:
        answer = found.summarize(df, size=each, counts="text")
        return answer.selectExpr("max(length(count))", "count(*)").collect()[0].asDict()

    variants = {"shuffle and sort only": (total, shuffled), "summaries": (total, summarized)}
    measured = compare(variants, repeat=settings.repeat, warm_up=1)
    measured[1].notes = {"answer": str(measured[1].answer)}
    ratio = measured[1].cpu_median / measured[0].cpu_median
    wall = measured[1].wall_median / measured[0].wall_median
    targets = [Target("CPU time against the shuffle", ratio, 3.0),
               Target("wall time against the shuffle", wall, 3.0)]  # fmt: skip
    return report("A B* C, summaries by key", measured, targets, "suse-keys")


COMMANDS = {
    "suse": run_targets,
    "suse-figure7": run_figure7,
    "suse-figure8": run_figure8,
    "suse-figure9": run_figure9,
    "suse-figure10": run_figure10,
    "suse-figure11": run_figure11,
    "suse-keys": run_keys,
}
