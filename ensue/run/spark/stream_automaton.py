"""Automata by hand on a streaming DataFrame: Spark hashes, lanes run the automaton."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ensue.query import rules
from ensue.revision.state import fingerprint_of
from ensue.run.lanes.arcs import arcs_work
from ensue.run.lanes.works import AskedAutomaton, automaton_work
from ensue.run.spark import stream
from ensue.run.spark.keyed import quoted
from ensue.run.spark.stream_options import StreamOptions


def run(asked: AskedAutomaton, df: DataFrame, given: dict[str, Any]) -> DataFrame:
    """All matches over a streaming DataFrame; `given` are the options of streams."""
    options = StreamOptions.of(given)
    stream.own_names(df, options)
    columns = [F.col(quoted(name)) for name in df.columns]
    prepared = stream.Prepared.of(asked.query(), df, options, columns)
    mark = fingerprint_of(asked.machine, asked.timing, whole=True).now[:12]
    arcs = len(asked.machine.arcs)
    description = prepared.description(
        automaton=f"an automaton of {arcs} arcs (fingerprint {mark})"
    )
    del description["pattern"]  # that of the query which stands for the automaton's columns
    if not options.edits:
        arguments = (prepared.schema, prepared.time, prepared.settings, description)
        return prepared.run(automaton_work(asked, *arguments))
    # All lanes agree on Spark's watermark alone.
    work = arcs_work(asked, prepared.schema, prepared.time, options.settings(), description)
    rules.duplicates((name.casefold() for name in work.found.names), "column of the output")
    return prepared.run(work)
