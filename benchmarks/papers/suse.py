"""Purtzel and Weidlich: SuSe (VLDB 2024)."""

from __future__ import annotations

from benchmarks.chart import short
from benchmarks.papers import Claim, Figure, Paper, Picture, Rows, chosen

QUERY = "a(b*c)*d(e|f)g*"


def _range(rows: Rows, column: str, **where: object) -> str:
    values = [float(row[column]) for row in chosen(rows, **where)]
    return f"{short(min(values))} to {short(max(values))}"


def _lines(part: str, x: str) -> Picture:
    axes = (x, "recall against the baseline")
    column = {"c": "triggers", "d": "letters"}[part]
    return Picture(
        f"Figure 7{part}", column, "improvement", "baseline", {"part": part}, axes, log_y=True
    )


def _nine(part: str, x: str) -> Picture:
    axes = (x, "recall against the baseline")
    return Picture(
        f"Figure 9{part}", "value", "improvement", "baseline", {"part": part}, axes, log_y=True
    )


def _eight(part: str, column: str, y: str, log: bool = False) -> Picture:
    return Picture(
        f"Figure 8{part}",
        "size",
        column,
        lambda row: f"window {row['window']}",
        names=("|S|", y),
        log_y=log,
    )


def _ten(part: str, column: str, y: str) -> Picture:
    return Picture(
        f"Figure 10{part}",
        "window",
        column,
        lambda row: f"|S| = {row['size']}",
        names=("window", y),
        log_y=part != "d",
    )


def _real(number: int, part: str, column: str, y: str) -> Picture:
    return Picture(f"Figure {number}{part}", "window", column,
                   lambda row: f"{row['query']}, |S| = {row['size']}", {"baseline": "fifo"}, ("window", y), log_y=True)  # fmt: skip


def _roomy(rows: Rows, column: str) -> str:
    values = [row[column] for row in rows if row["size"] >= row["window"]]
    return f"{min(values):.0%} to {max(values):.0%}, mean {sum(values) / len(values):.0%}"


def _against(rows: Rows, engine: str) -> str:
    theirs = {row["length"]: row["seconds"] for row in chosen(rows, engine=engine)}
    ours = {row["length"]: row["seconds"] for row in chosen(rows, engine="ensue")}
    if not theirs:
        return "not run: it could not be installed where the figures were taken"
    return ", ".join(f"{short(theirs[n] / ours[n])} times ours at {n}" for n in sorted(theirs))


def _case(number: int, name: str, where: str, ours: str, lost: str) -> Figure:
    return Figure(
        str(number), f"Case study: {name}", f"suse-figure{number}", paper=where, ours=ours,
        pictures=[_real(number, "a", "improvement", "recall against FIFO"), _real(number, "b", "per second", "events per CPU second"), _real(number, "c", "latency", "CPU seconds per event")],
        claims=[Claim(lost, lambda rows: _range(rows, "improvement")),
                Claim("70 to 1,500 elements a second (NASDAQ)" if number == 13 else "latency under 10⁻² s at |S| = 500", lambda rows: _range(rows, "per second") + " events per CPU second")],
        short="The paper names the character types and not their thresholds; ours are quantiles, written down in `benchmarks/suse_data.py`. Latency is the mean; the paper also shows the least and greatest.",
    )  # fmt: skip


PAPER = Paper(
    "suse",
    "Summaries (SuSe)",
    "Purtzel and Weidlich: *SuSe: Summary Selection for Regular Expression Subsequence Aggregation over Streams*, PVLDB 17, 2024",
    "C++ with 128-bit counters, 4 Xeon E7-4880 (60 cores), 1 TB",
    [
        Figure("1", "Architecture", instead="a diagram"),
        Figure("2", "Selection strategies on a small stream", instead="an example; it is the first example of [Summaries](summaries.md)"),
        *(Figure(n, t, instead="an example of the data structure; counters are compared with a brute-force count on all small streams (`tests/oracle_summary.py`)")
          for n, t in (("3", "Counters of A(B*C)*D"), ("4", "Evolution of a summary"), ("5", "Removing a character"), ("6", "Expected benefit"))),
        Figure("Table 1", "Notation", instead="notation; ours is in [Notation](notation.md)"),
        Figure("Table 2", "Counter concepts", instead="definitions"),
        Figure("Table 3", "Complexity of the operations", instead="a table of bounds; what an insertion costs is measured in Figures 10 and 11"),
        Figure("7", "Recall against random and FIFO", "suse-figure7", paper=f"{QUERY}; |S| 100 to 5,000, windows 10 to 250, streams of 10,000 to 25,000, averages of 50 runs",
               ours=f"{QUERY}; the same sizes, windows and distributions, 10,000 events, one stream at quick size",
               pictures=[Picture("Figure 7a", "size", "improvement", lambda row: f"{row['baseline']}, window {row['window']}", {"part": "ab", "shape": "uniform"}, ("|S|", "recall against the baseline"), log_y=True),
                         Picture("Figure 7b", "window", "improvement", lambda row: f"{row['baseline']}, {row['shape']}", {"part": "ab", "size": 250}, ("window", "recall against the baseline"), log_y=True),
                         _lines("c", "times the result was asked for"), _lines("d", "letters of the pattern")],
               claims=[Claim("never worse than a baseline; up to 10^20 times the matches", lambda rows: _range(rows, "improvement", part="ab")),
                       Claim("FIFO slightly better for patterns of two letters", lambda rows: _range(rows, "improvement", part="d", letters=2) + " at two letters"),
                       Claim("one to five orders of magnitude above ten letters", lambda rows: _range(rows, "improvement", part="d", letters=12) + " at twelve")],
               short="A ratio of two counts with a baseline of none counted as one: where both find nothing the ratio is 1, and single streams differ by orders of magnitude."),
        Figure("8", "Full benefit against present benefit", "suse-figure8", paper="absolute and detected recall, streams of 2,000", ours="the same, one stream per setting and two trigger processes",
               pictures=[_eight("a", "improvement", "recall against present benefit", True), _eight("b", "recall", "absolute recall"), _eight("c", "detected", "share of matches ever held")],
               claims=[Claim("absolute recall 80 to 95 % where |S| ≥ window", lambda rows: _roomy(rows, "recall")),
                       Claim("present benefit about 70 % lower", lambda rows: _roomy(rows, "present recall")),
                       Claim("90 to 98 % of the matches detected at |S| = 500", lambda rows: _range(rows, "detected", size=500))]),
        Figure("9", "Kleene stars, disjunctions, overlap", "suse-figure9", paper="|S| = 500, window 100, 25 or 50 triggers, 50 runs", ours="the same, 25 triggers, one stream at quick size",
               pictures=[_nine("a", "Kleene stars among twelve letters"), _nine("b", "place of the star"), _nine("c", "disjunctions"), _nine("d", "letters that overlap")],
               claims=[Claim("better with more stars (9a)", lambda rows: "; ".join(f"{n} stars: {_range(rows, 'improvement', part='a', value=n)}" for n in (0, 8))),
                       Claim("minimal without a star (9b)", lambda rows: _range(rows, "improvement", part="b", value="none"))],
               short="The paper's random expressions are not published; ours are drawn with the seed of the stream."),
        Figure("10", "Time, throughput, latency, memory", "suse-figure10", paper="10^5 elements, |S| and windows up to 1,000", ours="the same sizes, 4,600 events at quick size",
               pictures=[_ten("a", "seconds", "CPU seconds"), _ten("b", "per second", "events per CPU second"), _ten("c", "latency", "CPU seconds per event"), _ten("d", "resident MB", "resident MB")],
               claims=[Claim("median of mean latencies under 10⁻¹ s", lambda rows: _range(rows, "latency") + " s, mean per event"),
                       Claim("memory does not depend on |S| or window", lambda rows: _range(rows, "resident MB") + " MB")],
               short="Counts are exact integers of any size here, not 128 bits, so a count that grows long costs more."),
        Figure("11", "Against REmatch, FlinkCEP and CORE", "suse-figure11", paper="ABCD on AⁱBⁱCⁱDⁱ, summary and window as long as the word", ours="the same words up to 8,192 letters; wall seconds of ours and of REmatch's Python package",
               pictures=[Picture("Figure 11a", "length", "seconds", "engine", names=("letters", "seconds"), log_x=True, log_y=True)],
               claims=[Claim("REmatch at least ten times slower", lambda rows: _against(rows, "pyrematch")),
                       Claim("Flink at least 10^4 times slower, none above 128", lambda rows: _against(rows, "FlinkCEP"))],
               short="Short words are dominated by making the summary (about a millisecond), so REmatch is ahead there. No wheel of CORE is on the package index, so it is not run. FlinkCEP runs where `--peer flink` has brought its jars and a Java compiler is there."),
        _case(12, "Citi Bike", "3.8 M trips of New York; Q0 = E(H|K)*E, Q1 = (E|B|F)+CEHF", "five months of Jersey City's trips (`--data DIR`), the first 10,000 at quick size", "3 to 12 orders of magnitude at a window of 500"),
        _case(13, "NASDAQ", "462,028 one-minute bars; Q0 = A(B|G)*A, Q1 = A*G(A|B)*G*A", "442,216 bars of ten days in 2018 (`--data DIR`), the first 10,000 at quick size", "10^4 to 10^13 times, up to 10^23"),
    ],
)  # fmt: skip
