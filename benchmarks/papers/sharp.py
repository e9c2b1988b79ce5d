"""Yu, Shi, Weidlich, Zhao: SHARP (2025)."""

from __future__ import annotations

from benchmarks.chart import Points
from benchmarks.papers import Claim, Figure, Paper, Picture, Rows, chosen, mean

BOUND = ("bound, % of the full work", "recall, %")
DS1 = "Q3 and Q4 over DS1, 10,000 events, window 1,500; a history of as many events; bounds on work"
WORK = "A bound is a share of the work (partial matches visited), which does not depend on the machine; the paper's is of the latency."
BASELINES = "Baselines are our own, built on the same engine; without conditions to learn from they are stronger or weaker than the authors' code, which is not published."


def _recall(rows: Rows, share: float, *names: str) -> str:
    mine = chosen(rows, x=share)
    known = [name for name in names if chosen(mine, system=name)]
    return ", ".join(f"{name} {100 * mean(mine, 'recall', system=name):.0f} %" for name in known)


def _least(rows: Rows, system: str = "SHARP") -> str:
    values = [row["recall"] for row in chosen(rows, system=system)]
    return f"{100 * min(values):.0f} to {100 * max(values):.0f} %"


def _drawn(
    number: str,
    names: tuple[str, str] = BOUND,
    paper: dict[str, Points] | None = None,
    log_x: bool = False,
) -> Picture:
    return Picture(
        f"Figure {number}: recall",
        "x",
        "recall",
        "system",
        names=names,
        scale=100.0,
        paper=paper or {},
        log_x=log_x,
    )


def _speed(number: str, x: str = BOUND[0], log_x: bool = False) -> Picture:
    return Picture(
        f"Figure {number}: throughput",
        "x",
        "throughput",
        "system",
        names=(x, "times the unbounded run"),
        log_y=True,
        log_x=log_x,
    )


def _answers(rows: Rows, kind: str, share: int, column: str) -> str:
    mine = chosen(rows, hops="2", kind=kind, share=share)
    each = (("SHARP", "contribution"), ("RS", "random"), ("SS", "selectivity"))
    return ", ".join(f"{name} {100 * mean(mine, column, strategy=key):.0f} %" for name, key in each)


def _graph(number: str, kind: str, column: str, y: str, paper: Points) -> Picture:
    said = {"contribution": "SHARP", "random": "RS", "selectivity": "SS"}
    return Picture(f"Figure {number}: {y}", "share", column, lambda row: said[row["strategy"]],
                   {"hops": "2", "kind": kind}, (f"bound, % of the {kind}", f"{y}, %"), 100.0, paper={"SHARP": paper})  # fmt: skip


ROWS_ALONE = "each row pattern is matched by itself here (only conditions on single rows are shared), so there is no shared partial match to place, materialise or separate"
GRAPH = "14,872 2-hop questions of MetaQA (`--data DIR`), three candidate paths each: the right one and two others, in random order. No language model: the answer is the first of the ranked ends"

PAPER = Paper(
    "sharp",
    "Workloads under a bound (SHARP)",
    "Yu, Shi, Weidlich, Zhao: *SHARP: Shared State Reduction for Efficient Matching of Sequential Patterns*, 2025",
    "2 AMD EPYC 9684X (192 cores), 1.5 TB; GPU nodes for GraphRAG",
    [
        Figure("1", "Paths for retrieval-augmented generation", instead="an example; the same loop is [Films](gallery/8-films.md) in the gallery"),
        Figure("2", "Execution plans of single and of shared patterns", instead="a diagram; `workload.plot()` draws the shared plan"),
        Figure("3", "Workflow", instead="a diagram"),
        Figure("Table 1", "Notation", instead="notation; ours is in [Notation](notation.md)"),
        Figure("Table 2", "Patterns of the experiments", instead="the queries; ours are in `benchmarks/sharp_data.py`"),
        Figure("4", "Recall and throughput, synthetic", "sharp-figure4", paper="Q3 and Q4 over DS1, latency bounds", ours=DS1,
               pictures=[_drawn("4a", paper={"SHARP": [(10, 70.0), (50, 97.0)], "ICDE'20": [(10, 35.7)], "DARLING": [(10, 17.1)], "RS": [(10, 13.2)], "RI": [(10, 6.2)]}), _speed("4b")],
               claims=[Claim("10 %: SHARP 70 %, which is 1.96, 4.10, 5.30 and 11.25 times ICDE'20, DARLING, RS, RI", lambda rows: _recall(rows, 10, "SHARP", "ICDE'20", "DARLING", "RS", "RI")),
                       Claim("50 to 90 %: above 95 %", lambda rows: "; ".join(f"{share} %: {_recall(rows, share, 'SHARP')}" for share in (50, 70, 90)))],
               short=f"70 % at a bound of 10 % is not reached. {WORK} `benchmarks/sharp_offline.py` bounds what any policy could find that knows partial matches by their attributes. Throughput counts CPU seconds of matching, learning included. {BASELINES}"),
        Figure("5", "Recall and throughput, Citi Bike", "sharp-figure5", paper="Q3 and Q4 over New York's trips", ours="Jersey City's trips (`--data DIR`): 3,000 at quick size (10,000 in full), and as many before them as history; window 15 %; station numbers give type and ID",
               pictures=[_drawn("5a"), _speed("5b")], claims=[Claim("3.5, 3.7, 2.8 and 7 times the recall of ICDE'20, DARLING, RS, RI", lambda rows: _recall(rows, 10, "SHARP", "ICDE'20", "DARLING", "RS", "RI"))],
               short="At 10 % DARLING, which drops events by their type, is ahead; the stream has 108 matches, so one of them is a point of recall. How the paper materialises the types of Q3 and Q4 over trips is not said; ours is in `benchmarks/sharp_data.py`."),
        Figure("6", "Row patterns, crimes", "sharp-figure6", paper="Q5 and Q6 over Chicago's crimes, latency bounds", ours="the same city, 2022 (`--data DIR`; else a table with its marginals), 100,000 rows, window of a day; bounds on start rows tried",
               pictures=[_drawn("6a", paper={"SHARP": [(10, 74.0), (50, 96.0)]})], claims=[Claim("10 %: SHARP 74 %; 1.2, 1.85, 3.7 and 2 times ICDE'20, DARLING, RS, RI", lambda rows: _recall(rows, 10, "SHARP", "the best possible", "ICDE'20", "DARLING", "RS", "RI"))],
               short="A start row gives at most one match, so no choice finds more than the curve *the best possible*. 74 % at 10 % lies above it on this table. Throughput (6b) is kept for ours alone: a baseline here is computed from the exact answer, not run."),
        Figure("7", "GraphRAG under latency bounds", "graph-budget", paper="MetaQA, a language model in the loop, average of 14,872 queries", ours=GRAPH,
               pictures=[_graph("7a", "latency", "of answered", "accuracy", [(10, 70.0), (50, 100.0), (90, 100.0)]), _graph("7b", "latency", "recall", "recall", [(50, 73.0)]),
                         Picture("Figure 7c: time", "share", "micro", lambda row: {"contribution": "SHARP", "random": "RS", "selectivity": "SS"}[row["strategy"]], {"hops": "2", "kind": "latency"}, ("bound, % of the latency", "µs per question"))],
               claims=[Claim("accuracy 100 % from 50 % on", lambda rows: _answers(rows, "latency", 50, "of answered")),
                       Claim("accuracy 70 % at 10 %; RS and SS a third of it", lambda rows: _answers(rows, "latency", 10, "of answered")),
                       Claim("recall 73 % at 50 %", lambda rows: _answers(rows, "latency", 50, "recall"))],
               short="There is no language model here, so accuracy is of the graph's answers, not of generated text."),
        Figure("8", "Recall by how many partial matches are kept", "sharp-figure8", paper="selection ratio of partial matches", ours=f"{DS1}, the bound being the share of visits made",
               pictures=[_drawn("8", ("share kept, %", "recall, %"))], claims=[Claim("up to 30 times RS and 2.3 times ICDE'20", lambda rows: _recall(rows, 10, "SHARP", "ICDE'20", "RS"))], short=BASELINES),
        Figure("9", "Selectivity (a, b: events)", "sharp-figure9", paper="max(V) from 1 M to 9 M, bound 50 %", ours="the same", pictures=[_drawn("9a", ("max(V), millions", "recall, %"), {"SHARP": [(1, 100.0), (9, 100.0)]}), _speed("9b", "max(V), millions")],
               claims=[Claim("100 % throughout", _least)], short="At 50 % of the work some matches are lost; the paper's 100 % is of half the latency."),
        Figure("9 (c, d)", "Selectivity of row patterns", instead="not built: Q5 and Q6 compare X, which max(V) does not change, and the paper does not say which predicate reads V"),
        Figure("10", "Pattern length (a, b: events)", "sharp-figure10", paper="Q1 and Q2, length 4 to 8, bound 50 %", ours="the same; 2,500 events at quick size, window 375", pictures=[_drawn("10a", ("events in the pattern", "recall, %"), {"SHARP": [(4, 100.0), (8, 100.0)]}), _speed("10b", "events in the pattern")],
               claims=[Claim("100 % throughout", _least)], short="Far below the paper. A loop makes partial matches that differ only in a sum, and so short a stream teaches little about it; from six events on DARLING, which drops whole events, finds more."),
        Figure("10 (c, d)", "Pattern length of row patterns", instead="not built: under a bound whole start rows are shed, and their number does not depend on the pattern's length"),
        Figure("11", "Window", "sharp-figure11", paper="Q3 and Q4 over DS2, 1,000 to 16,000 events, bound 50 %", ours="Q3 and Q4 without their last two steps over DS2; windows of a fortieth to a fifth of the stream", pictures=[_drawn("11a", ("window, events", "recall, %"), {"SHARP": [(250, 95.0), (2000, 100.0)]}), _speed("11b", "window, events")],
               claims=[Claim("95 to 100 %, growing with the window", _least)], short="With the widest window, a fifth of the stream, recall falls to two thirds and DARLING is ahead: the history has only five such windows. Windows up to 16,000 events of the whole patterns hold more partial matches than the time of a quick run; `--full` takes 400 to 3,200. The paper's two values are drawn at our smallest and largest window."),
        Figure("12", "Shared, instantiated and separate state", "sharp-figure12", paper="SHARP-View, -Inst and -Sep over DS1", ours=f"{DS1}, without a history; views and separate state", pictures=[_drawn("12a"), _speed("12b")],
               claims=[Claim("View 1.1 times Inst, 5 times Sep", lambda rows: _recall(rows, 10, "SHARP-view", "SHARP-separate"))],
               short="The factor of 5 is not seen: without a history both learn while they shed, and separate state is even a little ahead under the tighter bounds. SHARP-Inst is not built: a partial match belongs to all its patterns by a bit mask, and there is no engine that copies it per pattern."),
        Figure("13", "The same for row patterns", instead=ROWS_ALONE),
        Figure("14", "Where the shared part stands (a: events)", "sharp-figure14", paper="offset 0 to 3, bound 50 %", ours="four-event parts after 0 to 3 events of each pattern's own", pictures=[_drawn("14a", ("offset of the shared part", "recall, %"))],
               claims=[Claim("stable, far above RS and RI", lambda rows: _least(rows) + f"; RS {_least(rows, 'RS')}, RI {_least(rows, 'RI')}")]),
        Figure("14 (b)", "The same for row patterns", instead=ROWS_ALONE),
        Figure("15", "Drift", "sharp-figure15", paper="D.V changes at event 9,000; windows 500 to 4,000; Q3 and Q4 apart", ours="the same drift, bound 50 %, windows 500 to 1,500, Q3 and Q4 together", pictures=[_drawn("15", ("event", "recall, %"), {"window 500": [(9000, 18.0)]})],
               claims=[Claim("falls to 18 %, back to 95 to 100 % after a window", lambda rows: f"{_least(rows, 'window 500')} (window 500), {_least(rows, 'window 1500')} (window 1,500)")],
               short="No fall is seen at the drift: fewer partial matches arise after it, so half of the mean work is enough for all of them. What is low here are the first stretches, where little has been learned. Stretches without a match are left out. Windows of 2,000 and 4,000 are left out at quick size."),
        Figure("16", "GraphRAG under memory bounds", "graph-budget", paper="bounds on memory", ours=GRAPH, pictures=[_graph("16a", "memory", "of answered", "accuracy", [(10, 80.0), (50, 95.0)]), _graph("16b", "memory", "recall", "recall", [(10, 40.0)])],
               claims=[Claim("accuracy 95 % at 50 %, 80 % at 10 %", lambda rows: f"{_answers(rows, 'memory', 50, 'of answered')}; {_answers(rows, 'memory', 10, 'of answered')}"),
                       Claim("recall 40 % at 10 %", lambda rows: _answers(rows, "memory", 10, "recall"))],
               short="At 10 % of the bytes none of the three finds anything: the bound is a share of what questions hold on average, and below what the first steps of these hold."),
    ],
)  # fmt: skip
