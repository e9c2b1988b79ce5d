"""String functions on Arrow columns where Arrow agrees with Spark, mostly with literal patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue.scalar.columns.mapping import Value
from ensue.scalar.functions.regex import like_parts, re2_regex
from ensue.scalar.functions.text import MAX_TEXT
from ensue.scalar.infer import Typed

Operands = list[Value]


def _ascii(value: Value) -> bool:
    """Whether no byte of the column is beyond ASCII (what slicing left out counts too)."""
    if isinstance(value, pa.Scalar):
        return not value.is_valid or value.as_py().isascii()
    data = value.buffers()[2]
    return data is None or data.size == 0 or int(np.frombuffer(data, np.uint8).max()) < 128


def _text(value: Value) -> str | None:
    """The value of a literal that is not null."""
    return value.as_py() if isinstance(value, pa.Scalar) else None


def _case(function: Any) -> Callable[[Operands, Typed], Value | None]:
    return lambda operands, _node: function(operands[0]) if _ascii(operands[0]) else None


def _length(operands: Operands, node: Typed) -> Value | None:
    counted = pc.binary_length if node.operands[0].kind.name == "binary" else pc.utf8_length
    return pc.cast(counted(operands[0]), pa.int32())


def _trim(function: Any) -> Callable[[Operands, Typed], Value | None]:
    def kernel(operands: Operands, _node: Typed) -> Value | None:
        characters = " " if len(operands) == 1 else _text(operands[1])
        return function(operands[0], characters=characters) if characters else None

    return kernel


def _substring(operands: Operands, node: Typed) -> Value | None:
    if node.kind.name != "string":
        return None
    start = _text(operands[1])
    length = _text(operands[2]) if len(operands) > 2 else 2**31 - 1
    if start is None or length is None or int(start) < 1 or int(length) < 1:
        return None
    first = int(start) - 1
    return pc.utf8_slice_codeunits(operands[0], first, min(first + int(length), 2**31 - 1))


def _longest(value: Value) -> int:
    """Bytes of the longest text; a column that is short as a whole is not looked into."""
    if isinstance(value, pa.Array) and value.nbytes <= MAX_TEXT // 64:
        return int(value.nbytes)
    lengths = pc.binary_length(value)
    found = lengths if isinstance(value, pa.Scalar) else pc.max(lengths)
    return found.as_py() or 0


def _concat(operands: Operands, node: Typed) -> Value | None:
    if sum(map(_longest, operands)) > MAX_TEXT:
        return None  # value by value, which refuses one that is too long
    nothing = b"" if node.kind.name == "binary" else ""
    return pc.binary_join_element_wise(*operands, nothing, null_handling="emit_null")


def _concat_ws(operands: Operands, _node: Typed) -> Value | None:
    separator, *texts = operands
    texts = [text for text in texts if isinstance(text, pa.Array) or text.is_valid]
    columns = sum(isinstance(text, pa.Array) for text in texts)
    if len(texts) < 2 or not columns or _text(separator) is None:
        return None
    if sum(map(_longest, operands)) + len(texts) * _longest(separator) > MAX_TEXT:
        return None
    return pc.binary_join_element_wise(*texts, separator, null_handling="skip")


def _like(operands: Operands, _node: Typed) -> Value | None:
    """LIKE without `_` and with `%` at the ends only is a search for a text."""
    pattern = _text(operands[1])
    escape = _text(operands[2]) if len(operands) > 2 else "\\"
    if pattern is None or escape is None or isinstance(operands[0], pa.Scalar):
        return None
    parts = like_parts(pattern, escape)
    texts = [part[1:] for part in parts if part.startswith("=")]
    if "_" in parts or len(texts) != 1:
        return None
    starts, ends = parts[0].startswith("="), parts[-1].startswith("=")
    if starts and ends:
        return pc.equal(operands[0], texts[0])
    if starts:
        return pc.starts_with(operands[0], pattern=texts[0])
    if ends:
        return pc.ends_with(operands[0], pattern=texts[0])
    return pc.match_substring(operands[0], pattern=texts[0])


def _rlike(operands: Operands, _node: Typed) -> Value | None:
    pattern = _text(operands[1])
    if pattern is None or isinstance(operands[0], pa.Scalar):
        return None
    linear = re2_regex(pattern)
    return None if linear is None else pc.match_substring_regex(operands[0], pattern=linear)


def _search(function: Any) -> Callable[[Operands, Typed], Value | None]:
    def kernel(operands: Operands, _node: Typed) -> Value | None:
        part = _text(operands[1])
        if part is None or isinstance(operands[0], pa.Scalar):
            return None
        return function(operands[0], pattern=part)

    return kernel


def _replace(operands: Operands, _node: Typed) -> Value | None:
    search = _text(operands[1])
    replacement = _text(operands[2]) if len(operands) > 2 else ""
    if not search or replacement is None:
        return None
    if _longest(operands[0]) * (len(replacement.encode()) // len(search) + 1) > MAX_TEXT:
        return None
    return pc.replace_substring(operands[0], pattern=search, replacement=replacement)


TEXT: dict[str, Callable[[Operands, Typed], Value | None]] = {
    "upper": _case(pc.ascii_upper),
    "lower": _case(pc.ascii_lower),
    "length": _length,
    "trim": _trim(pc.utf8_trim),
    "ltrim": _trim(pc.utf8_ltrim),
    "rtrim": _trim(pc.utf8_rtrim),
    "substring": _substring,
    "concat": _concat,
    "concat_ws": _concat_ws,
    "like": _like,
    "rlike": _rlike,
    "startswith": _search(pc.starts_with),
    "endswith": _search(pc.ends_with),
    "contains": _search(pc.match_substring),
    "replace": _replace,
}
