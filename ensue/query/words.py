"""A query in words, clause by clause: what `repr` and `explain` show of it.

Queries that mean different things have different words: nothing that changes an answer is left out.
What is so unless said otherwise is not said.
"""

from __future__ import annotations

from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.duration import duration_text
from ensue.query.missing import Effort, Missing
from ensue.query.query import PAST_LAST_ROW, OrderKey, Query, Rows, Skip, SkipMode, WindowKind
from ensue.query.sql import condition_sql, shown_sql


def clauses(query: Query) -> list[str]:
    """`cart -> pay`, `types kind`, `pay: amount > 10`, `partition by user`, ..."""
    said = [nodes.pattern_text(query.pattern, folds=False), *_definitions(query)]
    said += [f"{name} = {', '.join(members)}" for name, members in query.subsets]
    if query.without:
        said.append("without " + ", ".join(map(_label, query.without)))
    if query.missing is not None:
        said.append(_missing(query.missing))
    if query.all_matches and not query.without and nodes.is_strict(query.pattern):
        said.append("select strict")
    if query.partition_by:
        said.append("partition by " + ", ".join(query.partition_by))
    if query.order_by:
        said.append("order by " + ", ".join(map(_key, query.order_by)))
    if query.within is not None:
        size = query.within.size
        timed = query.within.kind is WindowKind.TIME
        text = duration_text(int(size)) if timed else f"{size}"
        said.append(f"within {text}{' rows' * (query.within.kind is WindowKind.ROWS)}")
    if query.skip != (Skip(SkipMode.NONE) if query.all_matches else PAST_LAST_ROW):
        target = f" {_label(query.skip.variable)}" if query.skip.variable else ""
        required = ", which must be there" if query.skip.required else ""
        said.append(f"after match {query.skip.mode.value.lower()}{target}{required}")
    if query.rows is not Rows.ONE:
        said.append(query.rows.value.lower())
    if query.measures is not None:
        told = [f"{measure.name} = {condition_sql(measure.value)}" for measure in query.measures]
        said.append("measures " + (", ".join(told) or "none"))
    return said


def clause_lines(query: Query) -> list[str]:
    """The words as a part of `explain`."""
    return ["Query", *(f"  {clause}" for clause in clauses(query)), ""]


def _definitions(query: Query) -> list[str]:
    """`types` where each label of the pattern stands for a value of one column, then the rest."""
    defined = {label: c.conjuncts(query.definition(label)) for label in query.labels}
    seen = nodes.labels(query.pattern)
    kinds = {_kind(label, defined[label]) for label in seen}
    column = kinds.pop() if len(kinds) == 1 else None
    if column is not None:
        defined |= {label: defined[label][1:] for label in seen}
    said = [] if column is None else [f"types {column}"]
    for label, parts in defined.items():
        rest = c.conjunction(parts)
        if rest != c.TRUE:
            said.append(f"{_label(label)}: {shown_sql(rest)}")
    return said


def _kind(label: str, parts: list[c.Condition]) -> str | None:
    """The column that holds the label's name, by the first part of its condition."""
    if not parts or not isinstance(parts[0], c.Call):
        return None
    place = parts[0]["this"]
    if not isinstance(place, c.Navigate) or not isinstance(place.argument, c.Column):
        return None
    row = c.Navigate(c.Column(place.argument.name))
    same = parts[0] == c.binary("eq", row, c.Literal("string", label))
    return place.argument.name if same else None


def _label(name: str) -> str:
    return nodes.quote_label(name, folds=False)


def _key(key: OrderKey) -> str:
    text = key.column + (" DESC" if key.descending else "")
    if key == OrderKey.of(key.column, key.descending):
        return text
    return f"{text} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _missing(missing: Missing) -> str:
    told = [f"{_label(label)} costs {weight}" for label, weight in missing.weights]
    told += [f"{_label(label)} must be there" for label in missing.required]
    usual = vars(Effort())
    told += [f"{k} = {v}" for k, v in vars(missing.effort).items() if v != usual[k]]
    return ", ".join([f"allow missing {missing.bound}", *told])
