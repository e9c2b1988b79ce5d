"""The fence around text that strangers wrote: what `trust="pattern"` lets a condition say.

Allowed is what stands in the catalogue (docs/functions.md), the aggregates over a match, columns
and literals. A list of what is allowed needs no knowledge of what Spark may learn next
(`java_method`, `reflect` and `read_files` are only some of its doors), and it is asked of the tree
that would run, so that it does not matter in which language a condition was written.

Spark also puts configuration values and environment variables in place of `${...}`, wherever that
stands in a text, literals and quoted names included: it is refused in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ensue import aggregate, errors
from ensue.query import condition as c
from ensue.query.query import Query
from ensue.query.sql import shortened
from ensue.scalar import kinds as k
from ensue.scalar.functions import CATALOGUE, FORMS, near, positional

PATTERN, ALL = "pattern", "all"
Fence = Callable[[Query], None]
_VALUES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "decimal": (Decimal,),
    "double": (float, int),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
}
_SPAN = re.compile(r"(YEAR|MONTH|DAY|HOUR|MINUTE|SECOND)( TO (MONTH|HOUR|MINUTE|SECOND))?", re.I)
_SUBSTITUTED = "${"
INSTEAD = "use the functions of docs/functions.md, or compute it as a column of the table first"


def fence_of(trust: object) -> Fence | None:
    """What checks a query under the option `trust`; None where all is allowed."""
    if trust not in (ALL, PATTERN):
        raise errors.QueryError(
            f"trust={trust!r} is not known",
            remedy="use 'all', or 'pattern' for text of people who may ask for patterns and for "
            "nothing else",
        )
    return check_query if trust == PATTERN else None


def check_query(query: Query) -> None:
    """Refuse a query whose conditions, measures or names say more than a pattern may."""
    for label, condition in query.define:
        check_condition(condition, f"DEFINE {label}")
    for measure in query.measures or ():
        check_condition(measure.value, f"measure {measure.name}")
        check_text(measure.name, "a measure's name")
    for name in (*query.partition_by, *(key.column for key in query.order_by), *query.variables):
        check_text(name, "a name")


def check_condition(condition: c.Condition, where: str) -> None:
    """Refuse a condition that says more than a pattern may."""
    for node in c.walk(condition):
        match node:
            case c.Literal():
                _check_literal(node, where)
            case c.Column():
                for name in (node.name, *node.path):
                    check_text(name, where)
            case c.TypeName():
                check_type(node.text, where)
            case c.Aggregate():
                if node.function not in aggregate.names():
                    raise refused(f"the aggregate {node.function!r}", where)
            case c.Call():
                _check_call(node, where)
            case _:  # navigation, CLASSIFIER and MATCH_NUMBER are the pattern's own
                pass


def check_type(text: str, where: str) -> None:
    """Refuse what is neither a type that Ensue knows nor the unit of an interval."""
    if k.from_name(text) is None and not _SPAN.fullmatch(text):
        raise refused(f"the type {text!r}", where)


def check_text(text: Any, where: str) -> None:
    """Refuse a literal or a name in which Spark would replace a part."""
    if not isinstance(text, str) or _SUBSTITUTED in text:
        raise refused(f"{shortened(repr(text))}, in which Spark would replace ${{...}},", where)


def refused(what: str, where: str, place: errors.Place | None = None) -> errors.UntrustedError:
    return errors.UntrustedError(
        f"{where}: {what} is not allowed in text that is trusted with a pattern and nothing else",
        remedy=INSTEAD,
        place=place,
    )


def _check_literal(literal: c.Literal, where: str) -> None:
    """A stored query says the kind and the value, and a number is printed as it is."""
    exact = type(literal.value) is bool if literal.kind == "boolean" else True
    if not exact or not isinstance(literal.value, _VALUES.get(literal.kind, ())):
        raise refused(f"the literal {literal.value!r} of kind {literal.kind!r}", where)
    if literal.kind == "string":
        check_text(literal.value, where)


def _check_call(call: c.Call, where: str) -> None:
    unit = call.function == "var"  # a bare word, such as the unit of an interval
    name = str(call["this"]) if call.function == "anonymous" else call.function
    form = name.lower() in FORMS
    if not (unit or form):
        try:
            known = positional(call).name in CATALOGUE
        except errors.UnsupportedFunctionError as problem:
            raise refused(problem.problem, where) from None
        if not known:
            close = near(name)
            hint = f" (did you mean {' or '.join(close)}?)" if close else ""
            raise refused(f"the function {name.lower()!r}{hint}", where)
    words = (value for role, value in call.arguments if isinstance(value, str))
    if not all(re.fullmatch(r"\w*", word) for word in words):
        raise refused(f"a word in {name.lower()!r}", where)
