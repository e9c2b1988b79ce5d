"""`./dev bench NAME...`: runs benchmarks by name; without a name, lists them."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import (
    acep,
    afa,
    budgets,
    cluster,
    cold,
    graph,
    graph_budget,
    graph_shortest,
    growth,
    intake,
    lanes,
    long,
    many,
    merged,
    prefilter,
    quantify,
    replay,
    rows,
    sequences,
    shapes,
    sharp,
    sharp_promises,
    stream,
    studio,
    suse,
    suse_data,
    suse_worst,
    whole,
)
from benchmarks.harness import KEPT, OUT, overview, say
from benchmarks.papers import run as papers

BENCHMARKS = {
    "w1": rows.run_w1,
    "w2": rows.run_w2,
    "why": rows.run_why,
    "growth": growth.run_growth,
    "growth-w1": rows.run_growth,
    "blowup": rows.run_blowup,
    "memory": rows.run_memory,
    "cold": cold.run_cold,
    **acep.COMMANDS,
    **afa.COMMANDS,
    **budgets.COMMANDS,
    **cluster.COMMANDS,
    **graph.COMMANDS,
    **graph_budget.COMMANDS,
    **graph_shortest.COMMANDS,
    **intake.COMMANDS,
    **lanes.COMMANDS,
    **long.COMMANDS,
    **many.COMMANDS,
    **merged.COMMANDS,
    **prefilter.COMMANDS,
    **sequences.COMMANDS,
    **sharp.COMMANDS,
    **shapes.COMMANDS,
    **sharp_promises.COMMANDS,
    **stream.COMMANDS,
    **studio.COMMANDS,
    **suse.COMMANDS,
    **suse_data.COMMANDS,
    **suse_worst.COMMANDS,
    **quantify.COMMANDS,
    **replay.COMMANDS,
}


def _purpose(name: str, run: Callable[..., bool]) -> str:
    """The first line of the benchmark's docstring, without its name."""
    line = (run.__doc__ or "").strip().splitlines()[0]
    return re.sub(rf"^{re.escape(name)}:?\s+", "", line, flags=re.IGNORECASE).rstrip(".")


def main(arguments: Sequence[str]) -> int:
    listing = [f"  {name}: {_purpose(name, run)}" for name, run in BENCHMARKS.items()]
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description="Benchmarks; `all` runs every one, `quick` one of each kind at a small size "
        "(`quick NAME...` only these) and one table of all aims, "
        "`table` shows all figures that were kept, `papers [NAME...]` runs what the papers show "
        "and writes docs/papers.md, and `peers [NAME...]` does the same for other engines.",
        epilog="\n".join(["benchmarks:", *listing]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", metavar="NAME", help="one of those below")
    parser.add_argument("--peer", choices=["flink"], help="also run w1 and w2 in this engine")
    parser.add_argument("--data", type=Path, help="keep the generated rows here, or find them")
    parser.add_argument("--rows", type=int, help="another number of rows")
    parser.add_argument("--repeat", type=int, default=3, help="runs after the warm-up (3)")
    parser.add_argument("--only", default="", help="budgets: streams whose name has this text")
    parser.add_argument("--strict", action="store_true", help="fail where a target is missed")
    parser.add_argument("--keep", action="store_true", help="keep the figures in results/ too")
    parser.add_argument("--full", action="store_true", help="papers: at the papers' sizes")
    parser.add_argument("--page", action="store_true", help="papers, peers: only write the page")
    given = parser.parse_args(arguments)
    if not given.name:
        parser.print_help()
        return 0
    if given.name == ["table"]:
        return 0 if overview(KEPT) or not given.strict else 1
    if given.name[0] in ("papers", "peers"):
        return (_papers if given.name[0] == "papers" else _peers)(given, parser)
    unknown = [name for name in given.name if name not in (*BENCHMARKS, "all", "quick")]
    if unknown:
        known = ", ".join(BENCHMARKS)
        parser.error(f"no benchmark {unknown[0]!r}; there are {known}, quick, all and table")
    if not Path("/proc/stat").exists():
        parser.error("CPU and memory are read from /proc, which only Linux has")
    names = list(BENCHMARKS) if "all" in given.name else given.name
    began = time.time()

    with tempfile.TemporaryDirectory(prefix="ensue-bench-") as temporary:
        folder = given.data or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        settings = rows.Settings(
            folder, given.rows, given.repeat, given.peer, given.only, given.keep
        )
        missed = []
        if "quick" in names:
            parts = {name: whole.PARTS[name] for name in names if name in whole.PARTS}
            records = whole.run(BENCHMARKS, settings, parts or None)
            if given.keep:
                whole.keep(records, KEPT)
            missed = [one["what"] for one in records if one.get("met") is False]
            names = []
        for name in names:
            if not BENCHMARKS[name](settings):
                missed.append(name)
        for session in settings.session:
            session.stop()
    say(f"figures are in {OUT.relative_to(OUT.parent.parent)}")
    if given.keep and names:
        KEPT.mkdir(exist_ok=True)
        for path in OUT.glob("*.json"):
            if path.stat().st_mtime >= began:
                shutil.copy(path, KEPT)
        overview(KEPT)
    if missed:
        say(f"targets missed in: {', '.join(missed)}")
    return 1 if missed and given.strict else 0


def _papers(given: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from benchmarks.papers import page

    names = given.name[1:]
    unknown = [name for name in names if name not in papers.JOBS]
    if unknown:
        parser.error(f"no figure's benchmark {unknown[0]!r}; there are {', '.join(papers.JOBS)}")
    if not given.page:
        with tempfile.TemporaryDirectory(prefix="ensue-bench-") as temporary:
            settings = rows.Settings(given.data or Path(temporary))
            papers.run(settings, names, given.full, given.data is not None)
            for session in settings.session:
                session.stop()
    page.write()
    return 0


def _peers(given: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from benchmarks import peers
    from benchmarks.peers import engines, page

    names = given.name[1:] or list(engines.PEERS)
    unknown = [name for name in names if name not in engines.PEERS]
    if unknown:
        parser.error(f"no peer {unknown[0]!r}; there are {', '.join(engines.PEERS)}")
    failed = False
    for name in () if given.page else names:
        with tempfile.TemporaryDirectory(prefix="ensue-bench-") as temporary:
            settings = rows.Settings(Path(temporary), given.rows, given.repeat)
            record = engines.run(name, settings)
            for session in settings.session:
                session.stop()
        if record is None:
            continue
        command = f"./dev bench peers {name}" + (f" --rows {given.rows}" if given.rows else "")
        peers.keep(name, command, record)
        for task in peers.disagreements(record):
            failed = True
            say(f"[red]{name}: the engines disagree on {task}[/red]")
        for line in record.lines:
            say(f"{line.task}: {line.engine}: CPU {line.cpu}, wall {line.wall}, {line.answer}")
    page.write()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
