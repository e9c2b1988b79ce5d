"""The catalogue of functions that Ensue evaluates itself, in process, as Spark 4 would.

`CATALOGUE` holds the functions proper, one entry each; `FORMS` the special forms of SQL that
`infer` types by hand because they look at their arguments one at a time (AND, CASE, IN, CAST). To
add a function: write an entry in the file of its group, its parsed shape in
`scalar/functions/shapes.py` if the parser has a node of its own for it, and rows for it in the
contract test against Spark.
"""

from __future__ import annotations

import difflib

from ensue.scalar.functions.arrays import ARRAYS
from ensue.scalar.functions.base import NOT_CONSTANT, Function, Given, Signature
from ensue.scalar.functions.numbers import NUMBERS
from ensue.scalar.functions.operators import OPERATORS
from ensue.scalar.functions.shapes import Shape, positional
from ensue.scalar.functions.text import TEXT
from ensue.scalar.functions.time import TIME

CATALOGUE: dict[str, Function] = {
    entry.name: entry for entry in (*OPERATORS, *NUMBERS, *TEXT, *TIME, *ARRAYS)
}

FORMS: dict[str, tuple[str, str, str]] = {
    "and": ("a AND b", "operators", "Both; b is not evaluated where a is false."),
    "or": ("a OR b", "operators", "Either; b is not evaluated where a is true."),
    "not": ("NOT a", "operators", "The opposite."),
    "is": ("a IS [NOT] NULL | TRUE | FALSE", "operators", "Never null."),
    "isnull": ("isnull(a)", "operators", "a IS NULL."),
    "isnotnull": ("isnotnull(a)", "operators", "a IS NOT NULL."),
    "between": ("a BETWEEN low AND high", "operators", "a >= low AND a <= high."),
    "in": ("a IN (b, ...)", "operators", "Equal to one; null if not and one is null."),
    "case": ("CASE [a] WHEN ... THEN ... [ELSE ...] END", "choice", "The first branch that holds."),
    "if": ("if(condition, a, b)", "choice", "a where the condition is true, else b."),
    "coalesce": ("coalesce(a, b, ...)", "choice", "The first that is not null; also nvl, ifnull."),
    "nvl2": ("nvl2(a, b, c)", "choice", "b where a is not null, else c."),
    "nullif": ("nullif(a, b)", "choice", "Null where a = b, else a."),
    "cast": ("CAST(a AS type)", "casts", "Converted; a value that does not fit raises."),
    "trycast": ("TRY_CAST(a AS type)", "casts", "Converted; null where CAST would raise."),
    "interval": (
        "INTERVAL n unit",
        "dates",
        "A span of time: units week to microsecond, or month and year.",
    ),
}


def near(name: str) -> list[str]:
    """Names of the catalogue that are spelled like `name`."""
    return difflib.get_close_matches(name.lower(), [*CATALOGUE, *FORMS], n=3, cutoff=0.6)


__all__ = [
    "CATALOGUE",
    "FORMS",
    "NOT_CONSTANT",
    "Function",
    "Given",
    "Shape",
    "Signature",
    "near",
    "positional",
]
