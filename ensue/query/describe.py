"""A condition as short SQL-like text, for messages (`front` prints exact SQL)."""

from __future__ import annotations

from ensue.query.condition import Argument, Call, Literal, Navigate, TypeName, dump

_INFIX = {
    "eq": "=",
    "neq": "<>",
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
    "nullsafeeq": "<=>",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
    "intdiv": "div",
    "and": "AND",
    "or": "OR",
    "dpipe": "||",
    "like": "LIKE",
    "ilike": "ILIKE",
    "regexplike": "RLIKE",
    "is": "IS",
}
_LONGEST = 120


def describe(condition: Argument) -> str:
    """At most one line."""
    text = _text(condition)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _text(node: Argument) -> str:
    match node:
        case Literal(kind="string", value=value):
            return "'" + str(value).replace("'", "''") + "'"
        case Literal(value=None):
            return "NULL"
        case Literal(kind="boolean", value=value):
            return "TRUE" if value else "FALSE"
        case Navigate(argument=argument, variable=None, offset=0, shift=0):
            return _text(argument)
        case Navigate(argument=argument, variable=variable, offset=0, shift=shift) if shift:
            name = "PREV" if shift < 0 else "NEXT"
            far = f", {abs(shift)}" if abs(shift) > 1 else ""
            prefix = f"{variable}." if variable else ""
            return f"{name}({prefix}{_text(argument)}{far})"
        case Call():
            return _call(node)
        case tuple():
            return ", ".join(_text(item) for item in node)
        case TypeName(text=text):
            return text
        case str():
            return node
        case _:
            return dump(node)


def _call(call: Call) -> str:
    function = call.function
    if function in _INFIX and call["negate"] is None:
        return f"{_operand(call['this'])} {_INFIX[function]} {_operand(call['expression'])}"
    match function:
        case "not":
            return f"NOT {_operand(call['this'])}"
        case "neg":
            return f"-{_operand(call['this'])}"
        case "var":
            return _text(call["this"])
        case "bracket":
            return f"{_text(call['this'])}[{_text(call['expressions'])}]"
        case "cast" | "trycast":
            name = "CAST" if function == "cast" else "TRY_CAST"
            return f"{name}({_text(call['this'])} AS {_text(call['to'])})"
        case "between":
            low, high = _operand(call["low"]), _operand(call["high"])
            return f"{_operand(call['this'])} BETWEEN {low} AND {high}"
        case "in":
            return f"{_operand(call['this'])} IN ({_text(call['expressions'])})"
        case "interval":
            return f"INTERVAL {_text(call['this'])} {_text(call['unit'])}"
        case "tsordstodate":
            return _text(call["this"])
        case "anonymous":
            return f"{call['this']}({_text(call['expressions'] or ())})"
        case _:
            given = (v for _, v in call.arguments if v is not None and not isinstance(v, bool))
            shown = [_text(value) for value in given]
            return f"{function}({', '.join(shown)})"


def _operand(node: Argument) -> str:
    text = _text(node)
    nested = isinstance(node, Call) and node.function in (*_INFIX, "not", "between", "in")
    return f"({text})" if nested else text
