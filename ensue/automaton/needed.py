"""What a row must be to matter: necessary conditions that are cheaper to ask than to match.

Two of them, both after Zhu et al., "High-Performance Row Pattern Recognition Using Joins" (PVLDB
16(5), 2023), which asks them as joins in front of the matcher:

- *Rows* of event patterns: where every joint skips, a row that no variable can take (negated ones
  and those that end a loop among them) leaves every partial match as it is.
- *Clauses* of any pattern: rows that a match needs. `A (B | C) D*` needs an A, and a B or a C: a
  partition without one of them has no match. Each clause is one OR over the row parts of labels.

Both are conditions on the row alone, so that a database, or the statistics of a Parquet file, can
answer them.
"""

from __future__ import annotations

from itertools import product

from ensue.automaton import timeouts
from ensue.automaton.plan import Plan, known_function
from ensue.query import condition as c
from ensue.query import nodes
from ensue.query.query import Query, Rows, WindowKind

MAX_CLAUSES = 16
Labels = frozenset[str]


def sees_all_rows(planned: Plan) -> str | None:
    """Why a row that no label can take still matters to the evaluator; None where it does not."""
    query = planned.query
    if query.row_semantics:
        return "a row pattern has no gaps"
    if query.within is not None and query.within.kind is WindowKind.ROWS:
        return "the window counts rows"
    if planned.lookback or planned.lookahead:
        return "a condition or measure reads the rows beside an event"
    if any(gap.policy is nodes.Policy.STRICT for gap in nodes.gaps(query.pattern)):
        return "a strict joint asks which row is the next"
    return None


def rows_that_matter(planned: Plan) -> tuple[c.Condition | None, str]:
    """The condition of all rows but those that change nothing, or None and the reason."""
    reason = sees_all_rows(planned)
    if reason is not None:
        return None, reason
    query = planned.query
    if query.missing is not None:
        return None, "events may be missing"
    if query.rows.all_rows:
        return None, "ALL ROWS PER MATCH shows rows"
    if any(gap.within is not None for gap in nodes.gaps(query.pattern)):
        return None, "any row shows that a joint's time is over"
    for tier in planned.tiers:
        if tier.row == c.TRUE:
            return None, f"every row could be {tier.label}"
    condition = c.chain("or", list(dict.fromkeys(tier.row for tier in planned.tiers)))
    unknown = unknown_function(condition)
    return (None, f"{unknown}() is not known to Ensue") if unknown else (condition, "")


def unknown_function(condition: c.Condition) -> str | None:
    """A function of the user, which may cost anything and is not asked twice."""
    for node in c.walk(condition):
        if isinstance(node, c.Call) and node.function == "anonymous" and not known_function(node):
            return str(node["this"])
    return None


# -- what a match cannot do without ---------------------------------------------------------------


def clauses_of(planned: Plan) -> tuple[c.Condition, ...]:
    """Conditions that each hold for some row of every match; none where that says nothing."""
    query = planned.query
    if query.missing is not None or query.rows is Rows.ALL_WITH_UNMATCHED:
        return ()
    if timeouts.is_timeout_query(query):  # a partial match may lack any of them
        return ()
    parts = {tier.label: tier.row for tier in planned.tiers}
    found: dict[c.Condition, None] = {}
    for labels in sorted(needed_labels(query), key=sorted):
        options = [parts[label] for label in sorted(labels)]
        condition = c.chain("or", list(dict.fromkeys(options)))
        if c.TRUE not in options and unknown_function(condition) is None:
            found[condition] = None
    return tuple(found)


def needed_labels(query: Query) -> frozenset[Labels]:
    """Sets of labels: every match has a row of one label of each set."""
    return _needed(query.pattern)


def _needed(node: nodes.Node) -> frozenset[Labels]:
    match node:
        case nodes.Label(name=name):
            return frozenset({frozenset({name})})
        case nodes.Concatenation(parts=parts) | nodes.Permutation(parts=parts):
            return frozenset().union(*map(_needed, parts))
        case nodes.Alternation(options=options):
            return _either([_needed(option) for option in options])
        case nodes.Repetition(part=part, least=least) if least > 0:
            return _needed(part)
        case nodes.Exclusion(part=part):
            return _needed(part)
        case _:
            return frozenset()


def _either(options: list[frozenset[Labels]]) -> frozenset[Labels]:
    """What one of several needs: one set of each, together; the smallest where there are many."""
    found = options[0]
    for option in options[1:]:
        joined = {left | right for left, right in product(found, option)}
        found = frozenset(sorted(joined, key=lambda s: (len(s), sorted(s)))[:MAX_CLAUSES])
    return found
