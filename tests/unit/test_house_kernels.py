"""The house of kernels: those without a way in from Python are called by kernels alone.

Called from Python, such a kernel would run what is at address 0. So nothing but a kernel may name
it, save what hands it on: an import, or a module's table of functions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import ensue

ROOT = Path(ensue.__file__).parents[1]
FILES = [path for top in ("ensue", "tests", "benchmarks") for path in (ROOT / top).rglob("*.py")]
INNER = {"inner", "inner_inlined", "inner_allocating"}
KERNEL = INNER | {"borrowing", "inlined", "allocating"}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def decorated(path: Path) -> Iterator[tuple[ast.FunctionDef, bool]]:
    """The kernels of a file, and whether Python may call each."""
    for node in tree(path).body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            text = ast.unparse(node.decorator_list[0])
            if text in KERNEL or "njit(" in text or text.startswith("with_options("):
                yield node, not (text in INNER or "no_cpython_wrapper=True" in text)


def named_outside_of_kernels(path: Path) -> set[tuple[str, str]]:
    """Module and name of what plain code of a file calls."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    spans = [(kernel.lineno, kernel.end_lineno or 0) for kernel, _ in decorated(path)]
    origins = {kernel.name: (module, kernel.name) for kernel, _ in decorated(path)}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                origins[name.asname or name.name] = node.module, name.name
    found = set()
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call) or any(a <= node.lineno <= b for a, b in spans):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in origins:
            found.add(origins[node.func.id])
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            package, last = origins.get(node.func.value.id, ("", ""))
            found.add((f"{package}.{last}", node.func.attr))
    return found


def test_no_kernel_without_a_way_in_is_called_from_python() -> None:
    inner = {
        (".".join(path.relative_to(ROOT).with_suffix("").parts), kernel.name)
        for path in FILES
        for kernel, has_entry in decorated(path)
        if not has_entry
    }
    assert len(inner) > 150
    called = {(path, use) for path in FILES for use in named_outside_of_kernels(path) & inner}
    assert {use for _, use in called} == set(), called
