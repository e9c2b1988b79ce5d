"""Python text of a pattern, read and never run.

    q = (ensue.pattern("view -> cart+ -> pay", types="kind")
         .define(cart="amount > 10").partition_by("user_id").order_by("ts"))

The text is parsed to Python's syntax tree, and one chain of calls is followed: a beginning
(`ensue.pattern`, `ensue.begin`, `ensue.sase`), then words that say something about a pattern.
Arguments are literals, `ensue.UNORDERED`, or a chain. Nothing else has a meaning here.
"""

from __future__ import annotations

import ast
from typing import Any

import ensue
from ensue import errors
from ensue.api.pattern import Pattern
from ensue.studio.texts import TEXT, Spot, TextError, token_length

BEGINNINGS = ("pattern", "begin", "sase")
WORDS = frozenset(
    {
        *("define", "subset", "partition_by", "order_by", "within", "select", "after_match"),
        *("rows_per_match", "measures", "without", "allow_missing"),
        *("where", "or_where", "next", "followed_by", "followed_by_any", "not_next"),
        *("not_followed_by", "one_or_more", "times", "times_or_more", "optional", "greedy"),
        *("until", "consecutive", "allow_combinations"),
    }
)
MAX_DEPTH = 200  # of calls in one chain


def read_python(text: str) -> Pattern:
    """The pattern that the text builds."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.split("\n")

    def read(self) -> Pattern:
        try:
            tree = ast.parse(self._text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            line = getattr(problem, "lineno", 1) or 1
            column = getattr(problem, "offset", 1) or 1
            offset = sum(len(t) + 1 for t in self._lines[: line - 1]) + column - 1
            wrong = errors.PatternSyntaxError(
                f"this is not Python: {getattr(problem, 'msg', problem)}",
                remedy='write q = ensue.pattern("A B+ C").define(...)',
            )
            raise TextError(wrong, Spot(TEXT, offset, 1)) from None
        values = [node for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom))]
        if len(values) != 1 or not isinstance(values[0], (ast.Expr, ast.Assign, ast.AnnAssign)):
            raise self._error(
                values[1] if len(values) > 1 else None,
                "the text is not exactly one pattern",
                'write one chain of calls that begins with ensue.pattern("...")',
            )
        value = values[0].value
        found = self._chain(value, 0) if value is not None else None
        if not isinstance(found, Pattern):
            raise self._error(
                value, "the text builds no pattern", 'begin with ensue.pattern("...")'
            )
        return found

    def _chain(self, node: ast.AST, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self._error(node, f"more than {MAX_DEPTH} calls in a chain", "shorten it")
        if not isinstance(node, ast.Call):
            raise self._error(node, "this is not a call", 'write ensue.pattern("...").define(...)')
        called = node.func
        if isinstance(called, ast.Name):
            begin, name = None, called.id
        elif isinstance(called, ast.Attribute):
            begin, name = called.value, called.attr
        else:
            raise self._error(
                node, "this is not a call of a pattern method", "call a method of a pattern"
            )
        if begin is None or (isinstance(begin, ast.Name) and begin.id == "ensue"):
            if name not in BEGINNINGS:
                raise self._error(
                    called, f"a pattern cannot begin with {name!r}",
                    "begin with ensue.pattern, ensue.begin or ensue.sase",
                )  # fmt: skip
            word = getattr(ensue, name)
        else:
            if name not in WORDS:
                raise self._error(
                    called, f"{name!r} is not a pattern method that can be read here",
                    "use " + ", ".join(sorted(WORDS)),
                )  # fmt: skip
            word = getattr(self._chain(begin, depth + 1), name, None)
            if word is None:
                raise self._error(
                    called, f"{name!r} goes with ensue.begin(...) only", "begin with ensue.begin"
                )
        arguments = [self._value(argument, depth) for argument in node.args]
        named = self._named(node, depth)
        try:
            return word(*arguments, **named)
        except errors.EnsueError as problem:
            raise TextError(problem, self._spot(problem, node)) from None
        except TypeError as problem:
            said = str(problem).rpartition("()")[2] or str(problem)
            raise self._error(called, f"{name}(){said}", f"see help of {name}") from None

    def _named(self, node: ast.Call, depth: int) -> dict[str, Any]:
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is not None:
                named[keyword.arg] = self._value(keyword.value, depth)
                continue
            more = self._value(keyword.value, depth)
            if not isinstance(more, dict) or not all(isinstance(name, str) for name in more):
                raise self._error(keyword.value, "** takes a dictionary of names", "write it out")
            named.update(more)
        return named

    def _value(self, node: ast.AST, depth: int) -> Any:
        if isinstance(node, ast.Call):
            return self._chain(node, depth + 1)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "ensue.UNORDERED":
            return ensue.UNORDERED
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise self._error(
                node, f"{ast.unparse(node)[:60]!r} is not a literal",
                "write texts, numbers, lists and dictionaries out; nothing is run here",
            ) from None  # fmt: skip

    def _spot(self, problem: errors.EnsueError, node: ast.Call) -> Spot:
        """Inside the literal that the problem quotes, else the call's name."""
        if problem.place is not None:
            for literal in ast.walk(node):
                if not isinstance(literal, ast.Constant) or not isinstance(literal.value, str):
                    continue
                base = literal.value.find(problem.place.text)
                begin, written = self._literal(literal)
                inside = written.find(problem.place.text) if base >= 0 else -1
                if inside >= 0:
                    offset = begin + inside + problem.place.offset
                    return Spot(TEXT, offset, token_length(self._text, offset))
        return self._at(node.func)

    def _literal(self, node: ast.Constant) -> tuple[int, str]:
        begin = self._offset(node.lineno, node.col_offset)
        assert node.end_lineno is not None and node.end_col_offset is not None
        return begin, self._text[begin : self._offset(node.end_lineno, node.end_col_offset)]

    def _offset(self, line: int, column: int) -> int:
        """Python counts columns in bytes of UTF-8."""
        before = self._lines[line - 1].encode()[:column].decode("utf-8", "ignore")
        return sum(len(text) + 1 for text in self._lines[: line - 1]) + len(before)

    def _at(self, node: ast.AST) -> Spot:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        if isinstance(node, ast.Attribute):
            assert node.end_lineno is not None and node.end_col_offset is not None
            end = self._offset(node.end_lineno, node.end_col_offset)
            return Spot(TEXT, end - len(node.attr), len(node.attr))
        offset = self._offset(line, column)
        end_line = getattr(node, "end_lineno", None)
        if end_line is None:
            return Spot(TEXT, offset, 1)
        end = self._offset(end_line, getattr(node, "end_col_offset", 0))
        return Spot(TEXT, offset, max(1, end - offset))

    def _error(self, node: ast.AST | None, problem: str, remedy: str) -> TextError:
        spot = Spot(TEXT, 0, max(1, len(self._text))) if node is None else self._at(node)
        return TextError(errors.PatternSyntaxError(problem, remedy=remedy), spot)
