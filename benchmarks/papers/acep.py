"""Li and Ge: History is a mirror to the future (VLDB 2016)."""

from __future__ import annotations

from benchmarks.chart import short
from benchmarks.papers import Claim, Figure, Paper, Picture, Rows, chosen, mean

TWEETS = "made-up tweets: 43 letters, situations planted at random, 5 % of their letters lost"
CARS = "made-up reports of vehicles with the letters of Q5 to Q8"
PRESERVED = "The paper's Twitter and vehicle data were never published"
TIME_OUT = ("RC-ACEP", "time-out", "time-out, late states first")


def _falls(rows: Rows, figure: int) -> str:
    """Events per second at k = 2 against k = 0, all queries."""
    mine = chosen(rows, figure=figure)
    ratios = [
        row["events per second"] / mean(mine, "events per second", query=row["query"], k=0)
        for row in chosen(mine, k=2)
    ]
    return f"k = 2 has {min(ratios):.1%} to {max(ratios):.1%} of the rate of k = 0"


def _higher(rows: Rows) -> str:
    ratios = [
        row["events per second"]
        / mean(rows, "events per second", figure=5, query=row["query"], k=2)
        for row in chosen(rows, figure=6, k=2)
    ]
    return f"{min(ratios):.2f} to {max(ratios):.2f} times (k = 2)"


def _longer(rows: Rows) -> str:
    mine = chosen(rows, figure=8, k=2)
    first, last = (
        mean(mine, "events per second", query="3"),
        mean(mine, "events per second", query="18"),
    )
    return f"{short(first)} events/s with 3 letters, {short(last)} with 18 (k = 2)"


def _found(rows: Rows, query: str, names: tuple[str, ...]) -> str:
    said = []
    for share in (0.05, 0.2):
        mine = chosen(rows, query=query, share=share)
        each = ", ".join(f"{name} {mean(mine, 'fraction', variant=name):.2f}" for name in names)
        said.append(f"{share:.0%}: {each}")
    return "; ".join(said)


def _bytes(rows: Rows, data: str, name: str, column: str) -> str:
    mine = chosen(rows, data=data)
    plain, other = mean(mine, column, variant="RC-ACEP"), mean(mine, column, variant=name)
    return f"{other / plain:.2f} times the bytes, on average"


def _drift(rows: Rows) -> str:
    mine = chosen(rows, stream="drift", days=(2, 3, 4))
    each = (
        f"{name} {mean(mine, 'fraction', adapt=name):.2f}"
        for name in ("frozen", "secondary", "agents")
    )
    return "days 2 to 4: " + ", ".join(each)


def _fractions(number: str, query: str, names: tuple[str, ...]) -> Picture:
    where = {"query": query, "variant": names}
    axes = ("work allowed, as a share of all", "bundles found")
    return Picture(f"Figure {number}", "share", "fraction", "variant", where, axes)


def _memory(number: str, data: str, names: tuple[str, ...], column: str = "bytes") -> Picture:
    where = {"data": data, "variant": names}
    return Picture(
        f"Figure {number}", "patterns", column, "variant", where, ("patterns in the union", "bytes")
    )


def _rates(number: int) -> Picture:
    axes = ("letters" if number == 8 else "", "events per CPU second")
    return Picture(f"Figure {number}", "query", "events per second", lambda row: f"k = {row['k']}",
                   {"figure": number}, axes, log_y=True)  # fmt: skip


RATES = "acep-figures5-8"
FOUND = "acep-figures9-16"
CLOSE = "The paper's axis is the inter-arrival time on its machine; ours is the work allowed per event as a share of what matching everything takes, which another machine reads the same way."

PAPER = Paper(
    "acep",
    "Best effort with events missing (RC-ACEP)",
    "Li and Ge: *History is a mirror to the future: Best-effort approximate complex event matching with insufficient resources*, VLDB 2016",
    "Java, Core i7 2.5 GHz, 8 GB",
    [
        *(Figure(n, t, instead="a diagram; its example is a test in `tests/unit/test_acep_paper.py`")
          for n, t in (("1", "Thompson's automaton"), ("2", "Automaton and matching"), ("3", "The history"), ("4", "The history sketch"))),
        Figure("5", "Throughput, tweets, large window", RATES, paper="Q1 to Q4, 3 M events a window", ours=f"{TWEETS}; a window of 300 events. {PRESERVED}",
               pictures=[_rates(5)], claims=[Claim("falls for long patterns and as k grows", lambda rows: _falls(rows, 5))],
               short="A window of 3 million events is not reached: Q1 at k = 2 has more partial matches than memory long before."),
        Figure("6", "Throughput, tweets, small window", RATES, paper="100,000 events a window", ours=f"{TWEETS}; a window of 60 events",
               pictures=[_rates(6)], claims=[Claim("much higher than in Figure 5", _higher), Claim("falls as k grows", lambda rows: _falls(rows, 6))]),
        Figure("7", "Throughput, vehicles", RATES, paper="Q5 to Q8, 50,000 events a window", ours=f"{CARS}; 200 events a window, 100 for Q8",
               pictures=[_rates(7)], claims=[Claim("Q5, the longest, is slowest", lambda rows: _falls(rows, 7))]),
        Figure("8", "Throughput against the pattern's size", RATES, paper="templates Q5 to Q8, letters added", ours=f"{CARS}; chains of 3 to 18 letters",
               pictures=[_rates(8)], claims=[Claim("falls with size and with k", _longer)]),
        Figure("9", "Matches found under a bound, tweets", FOUND, paper="Q1, k = 2, history of 512 bundles", ours=f"{TWEETS}; history of up to 48 bundles",
               pictures=[_fractions("9", "Q1", TIME_OUT)], claims=[Claim("far more than time-out when overloaded; both 1 with time enough", lambda rows: _found(rows, "Q1", TIME_OUT))], short=CLOSE),
        Figure("10", "Matches found under a bound, vehicles", FOUND, paper="Q5, k = 2", ours=CARS,
               pictures=[_fractions("10", "Q5", TIME_OUT)], claims=[Claim("far more than time-out when overloaded", lambda rows: _found(rows, "Q5", TIME_OUT))],
               short="On these vehicles the order of the automaton's states is itself a good guide, so plain time-out with late states first can come close or be ahead."),
        Figure("11", "Memory with the sketch, tweets", "acep-memory", paper="c = 800 cells", ours=f"{TWEETS}; 300 cells",
               pictures=[_memory("11", "tweets", ("RC-ACEP", "sketch"), "history bytes")], claims=[Claim("far less, and grows slowly", lambda rows: _bytes(rows, "tweets", "sketch", "history bytes"))],
               short="A sketch has its size from the start, so it is the larger one where a history has few vectors."),
        Figure("12", "Matches with the sketch, tweets", FOUND, paper="Q1", ours=TWEETS, pictures=[_fractions("12", "Q1", ("RC-ACEP", "sketch"))],
               claims=[Claim("a little less than without", lambda rows: _found(rows, "Q1", ("RC-ACEP", "sketch")))]),
        Figure("13", "Memory with the sketch, vehicles", "acep-memory", paper="c = 800 cells", ours=f"{CARS}; 300 cells",
               pictures=[_memory("13", "vehicles", ("RC-ACEP", "sketch"), "history bytes")], claims=[Claim("far less, and grows slowly", lambda rows: _bytes(rows, "vehicles", "sketch", "history bytes"))]),
        Figure("14", "Matches with the sketch, vehicles", FOUND, paper="Q5", ours=CARS, pictures=[_fractions("14", "Q5", ("RC-ACEP", "sketch"))],
               claims=[Claim("a little less than without", lambda rows: _found(rows, "Q5", ("RC-ACEP", "sketch")))]),
        Figure("15", "Matches with proxies", FOUND, paper="Q1", ours=TWEETS, pictures=[_fractions("15", "Q1", ("RC-ACEP", "proxy"))],
               claims=[Claim("even more than without", lambda rows: _found(rows, "Q1", ("RC-ACEP", "proxy")))]),
        Figure("16", "Memory with proxies", "acep-memory", paper="unions of patterns", ours=TWEETS,
               pictures=[_memory("16", "tweets", ("RC-ACEP", "proxy"))], claims=[Claim("considerably less", lambda rows: _bytes(rows, "tweets", "proxy", "bytes"))]),
        Figure("17", "Adaptation against the history's age", "acep-figure17", paper="Q1, 1 to 4 days after learning, 300 µs between events", ours=f"{TWEETS}; after the drift other words make the situations; 5 % of the work",
               pictures=[Picture("Figure 17", "days", "fraction", "adapt", {"stream": "drift"}, ("age of the history (quarters of the second stream)", "bundles found"))],
               claims=[Claim("with Q-learning the fraction stays high, without it drops sharply after two days", _drift)],
               short="Our drift is sudden and total, so all fall at once and what counts is how far they come back. One stream at quick size; the spread between seeds is wide."),
        Figure("18", "Memory with Q-learning", "acep-memory", paper="unions of patterns", ours=TWEETS,
               pictures=[_memory("18", "tweets", ("RC-ACEP", "agents"))], claims=[Claim("little overhead", lambda rows: _bytes(rows, "tweets", "agents", "bytes"))]),
    ],
)  # fmt: skip
