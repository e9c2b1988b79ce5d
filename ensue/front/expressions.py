"""SQL expression text to `query.condition` (`query/sql.py` prints it back).

sqlglot reads the scalar SQL; here its tree is mirrored into frozen nodes, and the
match-dependent functions become `Navigate`, `Aggregate`, `Classifier` and `MatchNumber` under the
standard's rules for nesting and labels (SQL:2016 6.x row pattern navigation; each broken rule is
a `NavigationError` with its column).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

import sqlglot
from sqlglot import exp

from ensue import errors
from ensue.front import aggregates
from ensue.front.dialect import FRAME, check_commas, is_aggregate, row_dialect, syntax_errors
from ensue.front.trees import CHAINED, function_name, literal, operands
from ensue.front.tries import INSTEAD_OF_TRY, NO_TRY, tried
from ensue.query import condition as c
from ensue.query.depth import check_depth, check_text, roomy
from ensue.query.variables import resolve

MAX_TEXT = 4_000_000
MAX_OFFSET = 1_000_000_000
# A column that stands for a constant of the whole input (a sub-query): it belongs to no variable.
CONSTANT_COLUMN = "_ensue_constant_"
_FORBIDDEN = (exp.Subquery, exp.Select, exp.Window, exp.Exists, exp.Union)


@dataclass(frozen=True)
class Scope:
    """What names mean where an expression stands."""

    variables: tuple[str, ...] = ()
    where: str = "the expression"  # for messages: "DEFINE B", "measure total"
    define: bool = False  # FINAL is not allowed
    fold: bool = False  # unquoted variables are upper-cased, as in SQL


def parse_condition(text: str, scope: Scope, dialect: str = "spark") -> c.Condition:
    """The condition tree of an SQL expression text; one that somebody holds is not read again."""
    key = text, scope, dialect
    if (found := _KNOWN.get(key)) is None:
        found = from_sqlglot(parse_sql(text, scope.where, dialect), scope, text)
        if isinstance(found, c.Call):  # others may be constants, which live for ever
            _KNOWN[key] = found
    return found


_KNOWN = WeakValueDictionary[tuple[str, Scope, str], c.Condition]()


@roomy
def from_sqlglot(tree: exp.Expression, scope: Scope, text: str = "", start: int = 0) -> c.Condition:
    """The condition of a tree that a statement parser has read, from `start` of the text on."""
    found = _Reader(text or tree.sql(), scope, start).match_level(tree)
    check_depth(found, c.children, scope.where)
    return found


@roomy
def parse_sql(text: str, where: str, dialect: str = "spark") -> exp.Expression:
    """sqlglot's tree; a syntax error points at the column."""
    if len(text) > MAX_TEXT:
        raise errors.LimitError(
            f"{where} has {len(text):,} characters; the limit is {MAX_TEXT:,}",
            remedy="compute parts of it into columns first",
        )
    if not text.strip():
        raise errors.ConditionSyntaxError(f"{where} is empty", remedy="write an SQL expression")
    check_text(text, where)
    check_commas(text, where)
    with syntax_errors(text, f"{where} is not an SQL expression"):
        tree = sqlglot.parse_one(text, dialect=row_dialect(dialect))
    for node in tree.find_all(exp.RegexpReplace):
        if node.args.get("replacement") is None:  # sqlglot reads it, and cannot print it
            raise errors.ConditionSyntaxError(
                f"{where}: regexp_replace takes a text, a pattern and a replacement",
                remedy="write regexp_replace(text, pattern, '')",
                place=errors.Place.at_offset(text, 0),
            )
    if isinstance(tree, (exp.Alias, exp.Command, exp.Query, exp.DDL, exp.DML)):
        raise errors.ConditionSyntaxError(
            f"{where} is a statement or has an alias, where one expression is expected",
            remedy="give the expression alone",
            place=errors.Place.at_offset(text, 0),
        )
    return tree  # type: ignore[return-value]


class _Reader:
    """Mirrors one sqlglot tree; `_seen` collects the variables used at row level."""

    def __init__(self, text: str, scope: Scope, start: int = 0) -> None:
        self._text = text
        self._scope = scope
        self._start = start
        self._seen: list[str | None] = []

    # -- at match level: a column is the running last row -------------------------------------

    def match_level(self, node: exp.Expression) -> c.Condition:
        self._forbid(node)
        if isinstance(node, exp.Column):
            argument, variable = self._column(node)
            return c.Navigate(argument, variable)
        special = self._special(node, final=False)
        if special is not None:
            return special
        return self._mirror(node, self.match_level)

    def _special(self, node: exp.Expression, final: bool) -> c.Condition | None:
        name = function_name(node)
        if name == FRAME:
            frame, inner = node.expressions
            if frame.name == "FINAL" and self._scope.define:
                raise self._error(
                    node,
                    f"{self._scope.where}: FINAL is not allowed in a definition, because "
                    "the match is not finished yet",
                    "leave FINAL out, or use it in MEASURES",
                    "FINAL",
                )
            if function_name(inner) in ("PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER"):
                raise self._error(
                    node,
                    f"{frame.name} cannot stand before {function_name(inner)}",
                    f"put {frame.name} on the FIRST or LAST inside, or leave it out",
                    frame.name,
                )
            special = self._special(inner, frame.name == "FINAL")
            if special is None:
                raise self._error(
                    node,
                    f"{frame.name} stands before something that is neither FIRST, LAST nor "
                    "an aggregate",
                    f"leave {frame.name} out",
                    frame.name,
                )
            return special
        if name in ("FIRST", "LAST"):
            return self._logical(node, final)
        if name in ("PREV", "NEXT"):
            return self._physical(node)
        if name == "MATCH_NUMBER":
            if node.expressions:
                raise self._error(
                    node, "MATCH_NUMBER takes no argument", "write MATCH_NUMBER()", name
                )
            return c.MatchNumber()
        if name == "CLASSIFIER":
            variable = self._classifier_variable(node)
            return c.Navigate(c.Classifier(), variable)
        if isinstance(node, exp.Filter) and aggregates.is_known(node.this):
            aggregate = self._aggregate(node.this, final)
            where = self._row_argument(node.expression.this, "FILTER", aggregate.variable)
            return replace(aggregate, where=where)
        if aggregates.is_known(node):
            return self._aggregate(node, final)
        if isinstance(node, (exp.Lag, exp.Lead)):
            raise self._neighbour(node)
        if is_aggregate(node):
            raise errors.UnsupportedFunctionError(
                f"{self._scope.where}: the aggregate {node.sql('spark')!r} is not supported over "
                "the rows of a match",
                remedy=f"use one of {aggregates.names()}",
                place=self._place(node),
            )
        return None

    def _logical(self, node: exp.Expression, final: bool) -> c.Navigate:
        name, (argument, offset) = function_name(node), self._navigation_arguments(node, 0)
        if function_name(argument) in ("FIRST", "LAST", "PREV", "NEXT", FRAME):
            raise self._error(
                node,
                f"{name} cannot contain {function_name(argument)}",
                "only PREV or NEXT may contain FIRST or LAST, not the other way round",
                name,
            )
        value, variable = self._row_level(argument, name)
        return c.Navigate(value, variable, c.Anchor[name], offset, 0, final)

    def _physical(self, node: exp.Expression) -> c.Navigate:
        name, (argument, offset) = function_name(node), self._navigation_arguments(node, 1)
        shift = -offset if name == "PREV" else offset
        inner_name = function_name(argument)
        if inner_name in ("PREV", "NEXT"):
            raise self._error(
                node,
                f"{name} cannot contain {inner_name}",
                "only FIRST or LAST may stand inside PREV or NEXT",
                inner_name,
            )
        if inner_name in ("FIRST", "LAST", FRAME):
            inner = self._special(argument, final=False)
            if not isinstance(inner, c.Navigate):
                raise self._error(
                    node, f"{name} cannot contain an aggregate", "use FIRST or LAST inside", name
                )
            return replace(inner, shift=shift)
        value, variable = self._row_level(argument, name)
        return c.Navigate(value, variable, c.Anchor.LAST, 0, shift)

    def _navigation_arguments(
        self, node: exp.Expression, default: int
    ) -> tuple[exp.Expression, int]:
        name, arguments = function_name(node), node.expressions
        if len(arguments) not in (1, 2):
            raise self._error(
                node,
                f"{name} takes a value and an offset, not {len(arguments)} arguments",
                f"write {name}(x) or {name}(x, 1)",
                name,
            )
        if len(arguments) == 1:
            return arguments[0], default
        offset = arguments[1]
        if not (isinstance(offset, exp.Literal) and not offset.is_string and offset.name.isdigit()):
            raise self._error(
                node,
                f"the offset of {name} must be a whole number, not {offset.sql('spark')!r}",
                "write a literal such as 1",
                name,
            )
        if int(offset.name) > MAX_OFFSET:
            raise self._error(
                node,
                f"the offset of {name} is above {MAX_OFFSET:,}",
                "look at nearer rows",
                name,
            )
        return arguments[0], int(offset.name)

    def _aggregate(self, node: Any, final: bool) -> c.Aggregate:
        call = aggregates.called(node)
        if call.refused is not None:
            problem, remedy = call.refused
            raise errors.UnsupportedFunctionError(
                f"{self._scope.where}: {problem}", remedy=remedy, place=self._place(node)
            )
        function, arguments, distinct = call.function, call.arguments, call.distinct
        stars = [given for given in arguments if isinstance(given, exp.Star) or given.is_star]
        if stars and (function != "count" or len(arguments) > 1):
            raise self._error(
                node, "* stands only inside COUNT", f"write {function}(x), x a column", None
            )
        if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            return c.Aggregate(function, (), None, final=final)
        if (
            len(arguments) == 1
            and isinstance(arguments[0], exp.Column)
            and isinstance(arguments[0].this, exp.Star)
        ):
            variable = self._variable(arguments[0].args["table"])
            if variable is None:
                raise self._unknown(arguments[0].args["table"])
            return c.Aggregate(function, (), variable, final=final)
        nested = [a for a in arguments if a.find(exp.AggFunc) is not None]
        if nested and not self._scope.define and not distinct:
            # Over the rounds of a repeated group: see docs/quantify.md.
            return c.Aggregate(function, (self.match_level(nested[0]),), None, final=final)
        self._seen = []
        values = tuple(self._row_node(argument, function.upper()) for argument in arguments)
        variable = self._agreed(node, function.upper())
        if function == "count_if":
            return c.Aggregate("count", (), variable, final=final, where=values[0])
        return c.Aggregate(function, values, variable, distinct, final)

    # -- at row level: inside one navigation or aggregate -------------------------------------

    def _row_level(self, node: exp.Expression, name: str) -> tuple[c.Condition, str | None]:
        self._seen = []
        value = self._row_node(node, name)
        if not self._seen:
            raise self._error(
                node, f"{name} needs a column of the row it moves to", f"write {name}(x)", name
            )
        return value, self._agreed(node, name)

    def _row_argument(self, node: exp.Expression, name: str, variable: str | None) -> c.Condition:
        self._seen = []
        value = self._row_node(node, name)
        found = self._agreed(node, name)
        if found is not None and found != variable:
            raise self._error(
                node,
                f"{name} reads {found!r} inside an aggregate over {variable or 'all rows'}",
                "use the same variable in both",
                found,
            )
        return value

    def _row_node(self, node: exp.Expression, name: str) -> c.Condition:
        self._forbid(node)
        if isinstance(node, exp.Column):
            column, variable = self._column(node)
            if not column.name.startswith(CONSTANT_COLUMN):
                self._seen.append(variable)
            return column
        function = function_name(node)
        if function == "CLASSIFIER":
            self._seen.append(self._classifier_variable(node))
            return c.Classifier()
        if function == "MATCH_NUMBER":
            return c.MatchNumber()
        if function in ("FIRST", "LAST", "PREV", "NEXT", FRAME) or isinstance(node, exp.AggFunc):
            inner = function if function in ("FIRST", "LAST", "PREV", "NEXT") else "an aggregate"
            raise self._error(
                node,
                f"{name} cannot contain {inner}",
                "only PREV or NEXT may contain FIRST or LAST; nothing else nests",
                function or name,
            )
        return self._mirror(node, lambda child: self._row_node(child, name))

    def _agreed(self, node: exp.Expression, name: str) -> str | None:
        """The one variable all references name; the standard allows no mixture."""
        kinds = list(dict.fromkeys(self._seen))
        if len(kinds) > 1:
            shown = " and ".join("all rows" if k is None else k for k in kinds)
            raise self._error(
                node,
                f"{self._scope.where}: {name} mixes references to {shown}",
                "all columns inside one navigation or aggregate must name the same variable",
                name,
            )
        return kinds[0] if kinds else None

    # -- names ---------------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> tuple[c.Column, str | None]:
        parts = node.parts
        if not all(part.name for part in parts if not isinstance(part, exp.Star)):
            raise self._error(node, "a name is empty", "write a name between the quotes", None)
        variable = self._variable(parts[0]) if len(parts) > 1 else None
        if variable is not None:
            parts = parts[1:]
        if isinstance(parts[-1], exp.Star):
            raise self._error(node, "* stands only inside COUNT", "name a column", "*")
        names = [part.name for part in parts]
        return c.Column(names[0], tuple(names[1:])), variable

    def _variable(self, identifier: Any) -> str | None:
        name = identifier.name
        if self._scope.fold:
            quoted = bool(identifier.args.get("quoted"))
            name = name if quoted else name.upper()
            return name if name in self._scope.variables else None
        return resolve(name, self._scope.variables)

    def _classifier_variable(self, node: exp.Expression) -> str | None:
        if not node.expressions:
            return None
        argument = node.expressions[0]
        single = isinstance(argument, exp.Column) and len(argument.parts) == 1
        if not single or len(node.expressions) > 1:
            said = ", ".join(given.sql("spark") for given in node.expressions)
            raise self._error(
                node,
                f"{self._scope.where}: CLASSIFIER takes one variable, not {said}",
                "write CLASSIFIER() or CLASSIFIER(A)",
                "CLASSIFIER",
            )
        variable = self._variable(argument.this)
        if variable is None:
            raise self._unknown(argument)
        return variable

    def _unknown(self, node: exp.Expression) -> errors.UnknownVariableError:
        known = ", ".join(self._scope.variables)
        return errors.UnknownVariableError(
            f"{self._scope.where} names the variable {node.name!r}, which the pattern does not "
            "have",
            remedy=f"use one of: {known}, or declare it with SUBSET",
            place=self._place(node),
        )

    # -- everything else -----------------------------------------------------------------------

    def _mirror(self, node: exp.Expression, visit: Any) -> c.Condition:
        if isinstance(node, CHAINED):
            parts = operands(node)
            if len(parts) > c.LONG_CHAIN:
                return c.chain(node.key, [visit(part) for part in parts])
        match node:
            case exp.Paren():
                return visit(node.this)
            case exp.Try():
                return visit(self._tried(node))
            case exp.Placeholder() | exp.Parameter():
                raise self._error(
                    node,
                    f"{node.sql('spark')} is a parameter",
                    "write its value into the text",
                    None,
                )
            case exp.Star():
                raise self._error(node, "* stands only inside COUNT", "name a column", "*")
            case exp.Literal():
                return self._literal(node)
            case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
                number = self._literal(node.this)
                return c.Literal(number.kind, -number.value)  # type: ignore[operator]
            case exp.Boolean():
                return c.Literal("boolean", bool(node.this))
            case exp.Null():
                return c.Literal("null", None)
            case exp.DataType():
                return c.TypeName(node.sql("spark"))
        if isinstance(node, exp.Anonymous):
            given = tuple(visit(argument) for argument in node.expressions)
            return c.call("anonymous", this=node.name.upper(), expressions=given)
        arguments: list[tuple[str, c.Argument]] = []
        for role in node.arg_types:
            value = node.args.get(role)
            if value is None or value is False or value == []:
                continue
            if isinstance(node, exp.Div) and role in ("safe", "typed"):
                continue  # what sqlglot believes of the dialect; Spark's own division is meant
            arguments.append((role, _argument(value, visit)))
        # In Spark's dialect sqlglot reads CAST as a TryCast that prints as CAST.
        plain_cast = isinstance(node, exp.TryCast) and not any(
            role not in ("this", "to") for role, _ in arguments
        )
        return c.Call("cast" if plain_cast else node.key, tuple(arguments))

    def _tried(self, node: exp.Try) -> exp.Expression:
        found = tried(node.this)
        if found is None:
            raise errors.UnsupportedFunctionError(
                f"{self._scope.where}: {node.sql()} has no equivalent in Spark's SQL: {NO_TRY}",
                remedy=INSTEAD_OF_TRY,
                place=self._place(node, "TRY"),
            )
        return found

    def _forbid(self, node: exp.Expression) -> None:
        array_exists = isinstance(node, exp.Exists) and node.args.get("expression") is not None
        if isinstance(node, exp.Window) and isinstance(node.this, (exp.Lag, exp.Lead)):
            raise self._neighbour(node.this)
        if isinstance(node, _FORBIDDEN) and not array_exists:
            kind = "a window function" if isinstance(node, exp.Window) else "a sub-query"
            raise self._error(
                node,
                f"{self._scope.where}: {kind} cannot stand here",
                "compute it into a column before matching",
                "",
            )

    def _neighbour(self, node: exp.Lag | exp.Lead) -> errors.NavigationError:
        """LAG and LEAD by their names in a row pattern."""
        word, instead = ("LAG", "PREV") if isinstance(node, exp.Lag) else ("LEAD", "NEXT")
        arguments = [node.this, *filter(None, [node.args.get("offset")])]
        said = ", ".join(part.sql("spark") for part in arguments)
        return self._error(
            node,
            f"{self._scope.where}: {word} is called {instead} in a pattern",
            f"write {instead}({said})",
            word,
        )

    def _error(
        self, node: exp.Expression, problem: str, remedy: str, word: str | None
    ) -> errors.NavigationError:
        return errors.NavigationError(problem, remedy=remedy, place=self._place(node, word))

    def _literal(self, node: exp.Literal) -> c.Literal:
        try:
            return literal(node)
        except errors.EnsueError as problem:
            raise problem.at(self._place(node, node.this)) from None

    def _place(self, node: exp.Expression, word: str | None = None) -> errors.Place:
        starts = [
            i.meta["start"]
            for i in node.find_all(exp.Identifier)
            if i.meta.get("start") is not None
        ]
        offset = min(starts, default=self._start)
        if word:
            found = re.finditer(rf"\b{re.escape(word)}\b", self._text, re.I)
            places = [m.start() for m in found if m.start() >= self._start]
            before = [place for place in places if place <= offset]
            offset = before[-1] if before else next(iter(places), offset)
        return errors.Place.at_offset(self._text, offset)


def _argument(value: Any, visit: Any) -> c.Argument:
    if isinstance(value, exp.Expression):
        return visit(value)
    if isinstance(value, list):
        return tuple(_argument(item, visit) for item in value)
    if isinstance(value, (str, bool, int)):
        return value
    return str(value)
