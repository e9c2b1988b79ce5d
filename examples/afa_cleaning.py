"""Stream cleaning (Appendix A of the AFA paper): a step that a reader missed is filled in.

    python examples/afa_cleaning.py

A book goes shelf -> desk -> door -> return -> shelf. Where the desk's reader missed it, the pattern
with the missing step matches, and its register holds the fill-in event: the book, and a time half
way between its neighbours.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import ensue


def missing_desk() -> ensue.Automaton:
    """Off the shelf and straight to the door: the desk in between is missing."""
    return (
        ensue.Automaton(
            {"left": "bigint", "desk_at": "bigint"}, order_by="ts", partition_by="book", within=100
        )
        .arc("q0", "shelf", when="reader = 'shelf'", set={"left": "ts"})
        .arc("shelf", "door", when="reader = 'door'", set={"desk_at": "(left + ts) DIV 2"})
        .final("door")
    )


def readings() -> pa.Table:
    """Book 1 was read at every step, book 2 not at the desk."""
    return pa.table(
        {
            "ts": [1, 3, 5, 20, 2, 8, 30],
            "book": [1, 1, 1, 1, 2, 2, 2],
            "reader": ["shelf", "desk", "door", "return", "shelf", "door", "return"],
        }
    )


def cleaned(table: pa.Table) -> pa.Table:
    """The readings with the missing ones filled in, in order."""
    found = missing_desk().matches(table)
    filled = pa.table(
        {
            "ts": found["desk_at"],
            "book": found["book"],
            "reader": pa.array(["desk"] * found.num_rows, pa.string()),
        }
    )
    both = pa.concat_tables([table, filled])
    return both.take(pc.sort_indices(both, [("book", "ascending"), ("ts", "ascending")]))


if __name__ == "__main__":
    print(cleaned(readings()).to_pandas())
