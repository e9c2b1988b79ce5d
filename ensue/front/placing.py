"""Where in the text an error belongs that was found without the text: types, values, limits.

Such an error speaks of a name, or of an expression as Ensue prints it. Both are looked for in the
measures and definitions of the clause; an expression is compared without spaces and brackets. Names
that Ensue gave to what it computes over the match are put back into the user's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ensue import errors
from ensue.front.clause import Clause, Item

_ATOM = re.compile(r"__ensue_atom_\d+")
_PLAIN = re.compile(r"[\s()`]+")
_PREFIX = re.compile(r"(DEFINE|measure) (\w+)\b")
_WORD = re.compile(r"(WITHIN|ORDER BY|PARTITION BY|AFTER MATCH SKIP)\b")
# How messages name what they speak of; the last way is a function, at their beginning.
_SAID = (
    r" in (.+?)(?:: |$)",
    r"condition is (.+?), of type",
    r"^(\w+)(?:\(\)|) (?:of|takes|would|gives)\b",
)


def located(problem: errors.EnsueError, clause: Clause) -> errors.EnsueError:
    """The error with a place in the text of the clause."""
    if problem.place is not None:
        return problem
    said = problem.problem
    if clause.skip_to is not None and said.startswith("AFTER MATCH SKIP"):
        return problem.at(clause.place(clause.skip_to.start))
    named = _named(said, clause)
    if named is not None:
        items = [named]
    else:
        items = [*([] if said.startswith("the condition is") else clause.measures), *clause.define]
    for item in items:
        text = item.value.sql("spark", comments=False)
        for snippet in _snippets(said):
            pattern, atoms = _pattern(snippet)
            where = text if snippet.isidentifier() else _PLAIN.sub("", text)
            match = re.search(pattern, where, re.IGNORECASE)
            if match:
                for place, atom in enumerate(atoms, 1):
                    said = said.replace(atom, match[place])
                return type(problem)(said, remedy=problem.remedy, place=clause.place(item.start))
    start = clause.start if named is None else named.start
    word, name = _WORD.match(said), re.search(r"'([^']+)'", said)
    for sought in (name and name[1], word and word[1]):
        if sought:
            pattern = rf"(?<!\w){re.escape(sought)}(?!\w)".replace(r"\ ", r"\s+")
            found = re.compile(pattern, re.IGNORECASE).search(clause.text, start)
            if found:
                return problem.at(clause.place(found.start()))
    return problem.at(clause.place(start))


def _named(said: str, clause: Clause) -> Item | None:
    """The definition or measure with whose name a message begins."""
    prefix = _PREFIX.match(said)
    if prefix is None:
        return None
    items = clause.define if prefix[1] == "DEFINE" else clause.measures
    alike = [item for item in items if item.name.text.casefold() == prefix[2].casefold()]
    return alike[0] if alike else None


def _snippets(said: str) -> Iterator[str]:
    for pattern in _SAID:
        yield from (found[1] for found in re.finditer(pattern, said))


def _pattern(snippet: str) -> tuple[str, list[str]]:
    """A regular expression for an expression as printed, and the atoms that its groups are."""
    atoms: list[str] = []
    parts = []
    at = 0
    for atom in _ATOM.finditer(snippet):
        parts.append(re.escape(_PLAIN.sub("", snippet[at : atom.start()])))
        known = atom[0] in atoms
        parts.append(rf"\{atoms.index(atom[0]) + 1}" if known else r"([\w.]+?|\w+.+?)")
        if not known:
            atoms.append(atom[0])
        at = atom.end()
    parts.append(re.escape(_PLAIN.sub("", snippet[at:])))
    return rf"(?<!\w){''.join(parts)}(?!\w)" if snippet.isidentifier() else "".join(parts), atoms
