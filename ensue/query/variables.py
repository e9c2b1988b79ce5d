"""Resolving a variable's name as written to the variable it means."""

from __future__ import annotations

from collections.abc import Sequence


def resolve(name: str, variables: Sequence[str]) -> str | None:
    """The variable spelt exactly so, else the only one that differs in case, else None."""
    if name in variables:
        return name
    alike = [v for v in variables if v.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None
