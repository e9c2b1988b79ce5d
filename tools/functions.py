"""Writes docs/functions.md from the catalogue: `python tools/functions.py`."""

from __future__ import annotations

from pathlib import Path

from ensue.scalar.functions import CATALOGUE, FORMS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "functions.md"
_HEADER = """\
# Functions that Ensue evaluates itself

On Spark, a condition on a single row may use any Spark SQL function: Spark evaluates it. In
process (an Arrow table, pandas, Polars), on streams of workloads or of patterns that may be edited,
and in conditions that read other events, Ensue evaluates the functions below, with the results of
Spark 4 in its default ANSI mode: overflow, division by zero and malformed casts are errors that
name the row, NaN equals NaN and is the greatest number, and the second side of AND, OR, CASE and
COALESCE is evaluated only where it is needed. An operator stops at its first null argument, so that
what comes after it cannot fail (`/`, `%` and `div` begin with the divisor). Anything else is
refused by name; compute it as a column first, or run on Spark.

This page is written by `python tools/functions.py` from the catalogue in
`ensue/scalar/functions`; `tests/spark/functions.toml` holds the expressions by which each entry
is compared with Spark.
"""
_GROUPS = {
    "operators": "Operators",
    "choice": "Choice",
    "casts": "Casts",
    "numbers": "Numbers",
    "strings": "Strings",
    "dates": "Dates and timestamps",
    "arrays": "Arrays and structs",
}
_NOTES = """\
## Casts in detail

Types: boolean, tinyint, smallint, int, bigint, float, double, decimal(p, s), string, binary, date,
timestamp, timestamp_ntz, array of these. A string beside a number, date, timestamp or boolean is
cast to it, as Spark does. A field of a struct is `s.field`. A timestamp is read in the session's
zone, which in process is the zone of the first timestamp column, else UTC.

## Known differences from Spark

- Dates and timestamps outside the years 1 to 9999 are refused where a value is handled by Python.
- A float cast to a string has the fewest digits that read back the same number; Java before 19
  sometimes prints more, or others (`4.9E-324` there, `5.0E-324` here).
- A decimal of more than 34 digits keeps them all where Spark rounds it or raises: in `-x`, `abs(x)`
  and casts to whole numbers. `x div y` of decimals raises where the quotient does not fit a bigint;
  Spark keeps its low 64 bits, as it keeps the low 32 of a bigint index in `x[i]`.
- `initcap` writes the `i` of a small `İ` as `I` and a dot above, Spark as `İ`.
- The last bit of `power`, `exp`, `ln`, `log`, `log10` can differ, as it does between Java versions.
- Regular expressions are Java's where Python's mean the same; `\\p{...}`, named groups, class
  intersections and a few rarer constructs are refused by name.
- A column of day-time intervals does not say whether it holds whole days only, so date + interval
  column is a timestamp; with a literal such as INTERVAL '1' DAY it is a date.
- Maps, lambdas, `array(...)`, `struct(...)` and formats of dates are not evaluated in process.
"""


def page() -> str:
    entries = [(e.group, e.usage, e.doc) for e in CATALOGUE.values()]
    entries += [(group, usage, doc) for usage, group, doc in FORMS.values()]
    parts = [_HEADER]
    for group, title in _GROUPS.items():
        rows = [f"| `{u.replace('|', chr(92) + '|')}` | {d} |" for g, u, d in entries if g == group]
        parts.append("\n".join([f"## {title}", "", "| form | meaning |", "|---|---|", *rows, ""]))
    return "\n".join([*parts, _NOTES])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
