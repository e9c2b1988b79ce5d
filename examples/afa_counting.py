"""aⁱbⁱcⁱ with counters (Appendix B of the AFA paper): no context-free grammar can say it.

python examples/afa_counting.py
"""

from __future__ import annotations

import pyarrow as pa

import ensue


def equal_counts() -> ensue.Automaton:
    """As many b's as a's and as many c's; ε-arcs check the counters at the end."""
    return (
        ensue.Automaton({"bs": "bigint", "cs": "bigint"}, order_by="ts")
        .arc("q0", "a", when="kind = 'a'", set={"bs": "bs + 1", "cs": "cs + 1"})
        .arc("a", "a", when="kind = 'a'", set={"bs": "bs + 1", "cs": "cs + 1"})
        .arc("a", "b", when="kind = 'b'", set={"bs": "bs - 1"})
        .arc("b", "b", when="kind = 'b' AND bs > 0", set={"bs": "bs - 1"})
        .arc("b", "c", when="kind = 'c' AND bs = 0", set={"cs": "cs - 1"})
        .arc("c", "c", when="kind = 'c' AND cs > 0", set={"cs": "cs - 1"})
        .arc("c", "done", when="cs = 0", epsilon=True)
        .final("done")
    )


def word(text: str) -> pa.Table:
    return pa.table({"ts": range(len(text)), "kind": list(text)})


if __name__ == "__main__":
    for text in ("aabbcc", "aabbc", "abcaabbcc"):
        found = equal_counts().matches(word(text)).to_pylist()
        print(text, [text[m["first"] : m["last"] + 1] for m in found])
