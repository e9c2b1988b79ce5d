"""The MATCH_RECOGNIZE clause and the row pattern window, read by a sqlglot parser.

sqlglot knows where expressions begin and end in each dialect; this mixin adds what it lacks: the
whole clause after any table, not once per SELECT, PATTERN kept as text for our own grammar, SUBSET,
WITHIN, every rows-per-match and skip form, and the same parts inside a window specification
(SQL:2016 R020). What was said is kept in a `Clause`; `front/sql.py` gives it meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from ensue import errors
from ensue.query.duration import parse_duration, read_interval
from ensue.query.query import Rows, SkipMode, Window, WindowKind

CLAUSE = "ensue_clause"  # key in a node's meta
OVER_ALL = "ensue_over_all"  # key in the meta of an aggregate: its place in the text


class MatchTable(exp.Expression):
    """`this MATCH_RECOGNIZE (...) AS alias`; the clause is in the meta."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "alias": False,
        "joins": False,
        "laterals": False,
    }


@dataclass(frozen=True)
class Name:
    """A variable as written, and where."""

    text: str
    quoted: bool
    start: int


@dataclass(frozen=True)
class Item:
    """A measure or a definition."""

    name: Name
    value: Any  # sqlglot's tree
    start: int


@dataclass
class Clause:
    """What a clause says, names unresolved; `start` is its place in the statement."""

    text: str
    start: int
    partition_by: list[Any] = field(default_factory=list)
    order_by: list[Any] = field(default_factory=list)
    measures: list[Item] = field(default_factory=list)
    rows: Rows = Rows.ONE
    timeouts: bool = False
    skip: SkipMode | None = None
    skip_to: Name | None = None
    pattern: str = ""
    pattern_start: int = 0
    within: Window | None = None
    subsets: list[tuple[Name, list[Name]]] = field(default_factory=list)
    define: list[Item] = field(default_factory=list)
    seek: bool = False
    frame: Any = None  # windows: sqlglot's WindowSpec
    over_all: int | None = None  # where a measure says OVER ALL MATCHES

    def place(self, offset: int | None = None) -> errors.Place:
        return errors.Place.at_offset(self.text, self.start if offset is None else offset)


def clause_of(node: exp.Expression) -> Clause | None:
    """The row pattern clause of a table or of a window."""
    return node.meta.get(CLAUSE) if node._meta else None


def clause_in(node: exp.Expression) -> Clause:
    """The clause of a node that has one."""
    clause = clause_of(node)
    assert clause is not None
    return clause


class ClauseParser:
    """Mixed into a sqlglot parser of any dialect."""

    # -- after a table ---------------------------------------------------------------------------

    def _parse_table(self: Any, *args: Any, **kwargs: Any) -> Any:
        joins = kwargs.pop("joins", False)
        begin = self._curr
        this = super()._parse_table(*args, joins=False, **kwargs)  # type: ignore[misc]
        while this is not None and self._curr and self._curr.text.upper() == "MATCH_RECOGNIZE":
            this = self._match_table(this, begin)
        if joins and this is not None:
            for join in self._parse_joins(alias_tokens=kwargs.get("alias_tokens")):
                this.append("joins", join)
        return this

    def _match_table(self: Any, this: Any, begin: Any) -> Any:
        start = self._curr.start
        if isinstance(this, exp.Lateral) or (begin and begin.text.upper() == "LATERAL"):
            raise errors.UnsupportedError(
                "the input of MATCH_RECOGNIZE is LATERAL: it would depend on the row beside it",
                remedy="join first in a sub-query and match on its result",
                place=errors.Place.at_offset(self.sql, start),
            )
        self._advance()
        clause = Clause(self.sql, start)
        self._open(clause, "MATCH_RECOGNIZE")
        self._parts(clause, window=False)
        self._close(clause)
        node = self.expression(MatchTable(this=this))
        node.meta[CLAUSE] = clause
        alias = self._parse_table_alias()
        if alias:
            node.set("alias", alias)
        elif self._prev.token_type == TokenType.ALIAS:
            raise self._expected(clause, "a name after AS")
        return node

    # -- in a window -----------------------------------------------------------------------------

    def _parse_column(self: Any) -> Any:
        this = super()._parse_column()  # type: ignore[misc]
        if isinstance(this, exp.Column) and self._curr and self._curr.token_type == TokenType.OVER:
            return self._parse_window(this)
        return this

    def _parse_window(self: Any, this: Any, alias: bool = False) -> Any:
        index = self._index
        following = [token.text.upper() for token in self._tokens[index : index + 3]]
        if this is not None and following == ["OVER", "ALL", "MATCHES"]:
            this.meta[OVER_ALL] = self._curr.start
            self._advance(3)
            return this
        if alias:
            self._match(TokenType.ALIAS)
            opened = self._curr and self._curr.token_type == TokenType.L_PAREN
        else:
            opened = self._match(TokenType.OVER) and (
                self._curr and self._curr.token_type == TokenType.L_PAREN
            )
        if not (opened and self._spec_has_pattern()):
            self._retreat(index)
            return super()._parse_window(this, alias=alias)  # type: ignore[misc]
        clause = Clause(self.sql, self._curr.start)
        self._advance()
        base = None
        if self._curr.text.upper() not in _SPEC_WORDS:
            base = self._parse_id_var(any_token=False)
        self._parts(clause, window=True)
        self._close(clause)
        order = exp.Order(expressions=clause.order_by) if clause.order_by else None
        node = self.expression(
            exp.Window(
                this=this,
                partition_by=clause.partition_by,
                order=order,
                alias=base,
                over=None if alias else "OVER",
            )
        )
        node.meta[CLAUSE] = clause
        return node

    def _spec_has_pattern(self: Any) -> bool:
        """Whether PATTERN ( stands directly inside the bracket that opens here."""
        depth, index = 0, self._index
        tokens = self._tokens
        while index < len(tokens):
            kind = tokens[index].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if depth == 0:
                return False
            if depth == 1 and tokens[index].text.upper() == "PATTERN":
                following = tokens[index + 1 : index + 2]
                if following and following[0].token_type == TokenType.L_PAREN:
                    return True
            index += 1
        return False

    # -- the parts, in the standard's order --------------------------------------------------------

    def _parts(self: Any, clause: Clause, window: bool) -> None:
        clause.partition_by = self._parse_partition_by()
        order = self._parse_order()
        clause.order_by = order.expressions if order else []
        if self._match_text_seq("MEASURES"):
            clause.measures = self._parse_csv(lambda: self._measure(clause))
        if window:
            clause.frame = self._frame(clause)
        else:
            self._rows_per_match(clause)
        if self._match_text_seq("AFTER", "MATCH"):
            self._skip_clause(clause)
        if window:
            clause.seek = bool(self._match_text_seq("SEEK")) and True
            if not clause.seek:
                self._match_text_seq("INITIAL")
        self._pattern_text(clause)
        if self._match_text_seq("WITHIN"):
            clause.within = self._within(clause)
        if self._match_text_seq("SUBSET"):
            clause.subsets = self._parse_csv(lambda: self._subset(clause))
        if clause.within is None and self._match_text_seq("WITHIN"):
            clause.within = self._within(clause)
        if self._match_text_seq("DEFINE"):
            clause.define = self._parse_csv(lambda: self._definition(clause))

    def _measure(self: Any, clause: Clause) -> Item:
        start = self._curr.start
        value = self._parse_disjunction()
        if value is None:
            raise self._expected(clause, "a measure: an expression AS a name")
        if not self._match(TokenType.ALIAS):
            raise self._expected(clause, "AS and the name of the measure")
        for node in value.find_all(exp.Expression):
            if node._meta and OVER_ALL in node.meta and clause.over_all is None:
                clause.over_all = node.meta[OVER_ALL]
        return Item(self._variable(clause, "the name of the measure"), value, start)

    def _definition(self: Any, clause: Clause) -> Item:
        name = self._variable(clause, "a pattern variable")
        if not self._match(TokenType.ALIAS):
            raise self._expected(clause, f"AS and the condition of {name.text}")
        start = self._curr.start if self._curr else clause.start
        value = self._parse_disjunction()
        if value is None:
            raise self._expected(clause, f"the condition of {name.text}")
        return Item(name, value, start)

    def _subset(self: Any, clause: Clause) -> tuple[Name, list[Name]]:
        name = self._variable(clause, "the name of a subset")
        if not self._match(TokenType.EQ):
            raise self._expected(clause, f"= and the members of {name.text}, in brackets")
        self._open(clause, f"SUBSET {name.text} =")
        members = self._parse_csv(lambda: self._variable(clause, "a pattern variable"))
        self._close(clause)
        return name, members

    def _variable(self: Any, clause: Clause, what: str) -> Name:
        token = self._curr
        good = token and (token.text.isidentifier() or (token.text and token.token_type in _QUOTED))
        if not good:
            raise self._expected(clause, what)
        self._advance()
        return Name(token.text, token.token_type in _QUOTED, token.start)

    def _rows_per_match(self: Any, clause: Clause) -> None:
        if self._match_text_seq("ONE", "ROW", "PER", "MATCH"):
            clause.rows = Rows.ONE
            clause.timeouts = bool(self._match_text_seq("SHOW", "TIMEOUT", "MATCHES"))
        elif self._match_text_seq("ALL", "ROWS", "PER", "MATCH"):
            clause.rows = Rows.ALL_SHOW_EMPTY
            if self._match_text_seq("OMIT", "EMPTY", "MATCHES"):
                clause.rows = Rows.ALL_OMIT_EMPTY
            elif self._match_text_seq("WITH", "UNMATCHED", "ROWS"):
                clause.rows = Rows.ALL_WITH_UNMATCHED
            elif self._match_text_seq("SHOW", "TIMEOUT", "MATCHES"):
                clause.timeouts = True
            else:
                self._match_text_seq("SHOW", "EMPTY", "MATCHES")

    def _skip_clause(self: Any, clause: Clause) -> None:
        if not self._match_text_seq("SKIP"):
            raise self._expected(clause, "SKIP")
        if self._match_text_seq("PAST", "LAST", "ROW"):
            clause.skip = SkipMode.PAST_LAST_ROW
            return
        if not self._match_text_seq("TO"):
            raise self._expected(clause, "PAST LAST ROW or TO")
        if self._match_text_seq("NEXT", "ROW"):
            clause.skip = SkipMode.TO_NEXT_ROW
            return
        clause.skip = SkipMode.TO_LAST
        # FIRST and LAST may also be names of variables: SKIP TO FIRST, then PATTERN.
        word, after = self._curr.text.upper(), self._next.text.upper() if self._next else ""
        if word in ("FIRST", "LAST") and after not in _AFTER_SKIP:
            clause.skip = SkipMode.TO_FIRST if word == "FIRST" else SkipMode.TO_LAST
            self._advance()
        clause.skip_to = self._variable(clause, "a pattern variable to skip to")

    def _pattern_text(self: Any, clause: Clause) -> None:
        if not self._match_text_seq("PATTERN"):
            raise self._expected(clause, "PATTERN ( ... )")
        self._open(clause, "PATTERN")
        clause.pattern_start, depth = self._prev.end + 1, 1
        while self._curr:
            kind = self._curr.token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if depth == 0:
                clause.pattern = self.sql[clause.pattern_start : self._curr.start]
                self._advance()
                return
            self._advance()
        raise self._expected(clause, ") after the pattern")

    def _within(self: Any, clause: Clause) -> Window:
        start = self._curr.start if self._curr else clause.start
        if self._match(TokenType.INTERVAL) or self._match_text_seq("INTERVAL"):
            return Window(WindowKind.TIME, self._interval(clause, start))
        token = self._curr
        if token and token.token_type == TokenType.NUMBER:
            self._advance()
            number = float(token.text) if "." in token.text else int(token.text)
            if self._match(TokenType.ROWS) or self._match_text_seq("ROW"):
                if not isinstance(number, int) or number < 1:
                    raise self._expected(clause, "WITHIN at least 1 row")
                return Window(WindowKind.ROWS, number)
            return Window(WindowKind.NUMBER, number)
        if token and token.token_type == TokenType.STRING:
            self._advance()
            return Window(WindowKind.TIME, parse_duration(token.text, clause.place(start)))
        raise self._expected(clause, "INTERVAL '1' HOUR, a number, or a number of ROWS")

    def _interval(self: Any, clause: Clause, start: int) -> int:
        place = clause.place(start)
        amount = self._curr.text if self._curr else ""
        if not self._curr or self._curr.token_type not in (TokenType.STRING, TokenType.NUMBER):
            raise self._expected(clause, "the length of the interval")
        self._advance()
        unit = ""
        if (
            self._curr
            and self._curr.text.isalpha()
            and self._curr.text.upper() not in _AFTER_WITHIN
        ):
            unit = self._curr.text
            self._advance()
            if self._match(TokenType.L_PAREN):  # the precision of DAY(3)
                self._advance()
                self._close(clause)
            if self._match_text_seq("TO"):
                last = self._curr.text if self._curr else ""
                self._advance()
                found = read_interval(amount.strip(), f"{unit} TO {last}".upper())
                if found is None or found[0] != "time" or found[1] < 0:
                    raise errors.QueryError(
                        f"INTERVAL '{amount}' {unit} TO {last} is not a duration",
                        remedy="write a number for each field, such as INTERVAL '1 02:30' DAY TO "
                        "MINUTE",
                        place=place,
                    )
                return found[1]
        return parse_duration(f"{amount} {unit}", place)

    def _frame(self: Any, clause: Clause) -> Any:
        if not self._match_set((TokenType.ROWS, TokenType.RANGE)) and not self._match_text_seq(
            "GROUPS"
        ):
            raise self._expected(
                clause, "a frame: ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
            )
        kind = self._prev.text.upper()
        self._match(TokenType.BETWEEN)
        begin = self._parse_window_spec()
        end = self._parse_window_spec() if self._match(TokenType.AND) else {}
        exclude = self._match_text_seq("EXCLUDE")
        starts_here = begin["value"] == "CURRENT ROW"
        if kind != "ROWS" or not starts_here or exclude or not end:
            raise errors.QueryError(
                "the frame of a row pattern must be ROWS BETWEEN CURRENT ROW AND an end, "
                "without EXCLUDE",
                remedy="write ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                place=clause.place(self._prev.start),
            )
        side = end["side"] or ""  # none where the words after AND are no bound
        if end["value"] not in ("UNBOUNDED", "CURRENT ROW") and side.upper() != "FOLLOWING":
            raise errors.QueryError(
                "the frame of a row pattern must end at or after the current row",
                remedy="write n FOLLOWING or UNBOUNDED FOLLOWING",
                place=clause.place(self._prev.start),
            )
        return end["value"]

    # -- brackets and errors ---------------------------------------------------------------------

    def _open(self: Any, clause: Clause, before: str) -> None:
        if not self._match(TokenType.L_PAREN):
            raise self._expected(clause, f"( after {before}")

    def _close(self: Any, clause: Clause) -> None:
        if not self._match(TokenType.R_PAREN):
            raise self._expected(clause, ")")

    def _expected(self: Any, clause: Clause, what: str) -> errors.ConditionSyntaxError:
        token = self._curr
        found = repr(token.text) if token and token.text else "the end of the text"
        offset = token.start if token and token.text else len(self.sql)
        return errors.ConditionSyntaxError(
            f"expected {what}, found {found}",
            remedy=f"the parts of the clause and their order are in {errors.DOCS}/sql.md",
            place=clause.place(offset),
        )


_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)
_AFTER_SKIP = ("PATTERN", "INITIAL", "SEEK")
_AFTER_WITHIN = ("SUBSET", "DEFINE")
_SPEC_WORDS = frozenset(
    {"PARTITION", "PARTITION BY", "ORDER", "ORDER BY", "MEASURES", "ROWS", "RANGE", "GROUPS"}
    | {"AFTER", "INITIAL", "SEEK", "PATTERN"}
)
