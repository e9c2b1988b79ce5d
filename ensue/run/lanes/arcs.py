"""Automata by hand on a stream, whose arcs may change as it runs.

Edits of arcs come as orders of the control directory and apply to events from the watermark on
(AFA §2.3 takes the newest timestamp where that is later; all lanes agree on the watermark alone).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ensue import errors
from ensue.operator.match_names import MATCH
from ensue.operator.protocol import LaneEvaluator, Output
from ensue.revision.ordered import OrderedRevisions
from ensue.run.lanes.edits import PATTERN, VERSION, counted, with_version
from ensue.run.lanes.orders import JSON, Edit, carried_out
from ensue.run.lanes.stages import EvaluatorStage, EvaluatorWork
from ensue.run.lanes.work import Settings, Stage
from ensue.run.lanes.works import AskedAutomaton, automaton_recipe


@dataclass(frozen=True)
class ArcsWork(EvaluatorWork):
    """Matches of an automaton whose arcs may be edited."""

    asked: AskedAutomaton

    def stage(self, lane: int) -> Stage:
        return ArcsStage(self, lane)


def arcs_work(
    asked: AskedAutomaton,
    schema: pa.Schema,
    time: str,
    settings: Settings,
    description: Mapping[str, str],
) -> ArcsWork:
    recipe = automaton_recipe(asked, schema, settings)
    found = with_version(recipe.found, asked.partition_by)
    arguments = (asked.partition_by, time, settings, description, recipe, asked)
    return ArcsWork(schema, found, *arguments)


class ArcsStage(EvaluatorStage):
    """See the module."""

    def __init__(self, work: ArcsWork, lane: int, evaluator: LaneEvaluator | None = None) -> None:
        super().__init__(work.recipe, lane, evaluator)
        self._work = work

    @property
    def _automaton(self) -> OrderedRevisions:
        assert isinstance(self.evaluator, OrderedRevisions)
        return self.evaluator

    def _shown(self, output: Output) -> Iterator[pa.Table]:
        names = [*self._work.found.names, *([MATCH] if self.recipe.identified else [])]
        for table in super()._shown(output):
            rows = table.num_rows
            patterns = pa.array([self._work.settings.name] * rows, pa.string())
            numbers = pa.array([self._automaton.version] * rows, pa.int64())
            shown = table.append_column(PATTERN, patterns).append_column(VERSION, numbers)
            yield shown.select(names)

    def by_pattern(self, found: pa.Table) -> Mapping[str, int]:
        return counted(found)

    def revise(self, orders: Sequence[str], since: int | None) -> list[dict[str, str]]:
        return carried_out(orders, lambda edit: self._edit(edit, since), self)

    def _edit(self, edit: Edit, since: int | None) -> None:
        name, asked = self._work.settings.name, self._work.asked
        if edit.name != name or edit.kind != JSON or asked.read is None:
            raise errors.UnsupportedError(
                f"{edit.name}.{edit.kind} is not an edit of the arcs of {name}: a stream of an "
                "automaton by hand has this one pattern",
                remedy=f"write it with Control(...).arcs({name!r}, add={{...}}, remove=[...])",
            )
        version = self._automaton.version
        if edit.number <= version:
            raise errors.QueryError(
                f"{name} is in version {version}, and the edit is number {edit.number}",
                remedy="edits are numbered upwards: use Control(...).arcs",
            )
        arcs, gone, finals = asked.read(edit.text, asked.machine.fields)
        self._automaton.change_arcs(edit.number, arcs, gone, finals, since)

    def copy(self) -> ArcsStage:
        return ArcsStage(self._work, self.lane, self.evaluator.copy())
