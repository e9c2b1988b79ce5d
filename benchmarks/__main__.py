"""`./dev bench NAME...`: runs benchmarks by name; without a name, lists them."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import (
    acep,
    afa,
    cluster,
    cold,
    graph,
    graph_budget,
    growth,
    intake,
    quantify,
    replay,
    rows,
    sequences,
    sharp_promises,
    stream,
    studio,
    suse,
    suse_data,
    suse_worst,
)
from benchmarks.harness import OUT, say

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
    **cluster.COMMANDS,
    **graph.COMMANDS,
    **graph_budget.COMMANDS,
    **intake.COMMANDS,
    **sequences.COMMANDS,
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
        description="Benchmarks; `all` runs every one.",
        epilog="\n".join(["benchmarks:", *listing]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", metavar="NAME", help="one of those below")
    parser.add_argument("--peer", choices=["flink"], help="also run w1 and w2 in this engine")
    parser.add_argument("--data", type=Path, help="keep the generated rows here, or find them")
    parser.add_argument("--rows", type=int, help="another number of rows")
    parser.add_argument("--repeat", type=int, default=3, help="runs after the warm-up (3)")
    parser.add_argument("--strict", action="store_true", help="fail where a target is missed")
    given = parser.parse_args(arguments)
    if not given.name:
        parser.print_help()
        return 0
    unknown = [name for name in given.name if name not in (*BENCHMARKS, "all")]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)} and all")
    if not Path("/proc/stat").exists():
        parser.error("CPU and memory are read from /proc, which only Linux has")
    names = list(BENCHMARKS) if "all" in given.name else given.name

    with tempfile.TemporaryDirectory(prefix="ensue-bench-") as temporary:
        folder = given.data or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        settings = rows.Settings(folder, given.rows, given.repeat, given.peer)
        missed = [name for name in names if not BENCHMARKS[name](settings)]
        for session in settings.session:
            session.stop()
    say(f"figures are in {OUT.relative_to(OUT.parent.parent)}")
    if missed:
        say(f"targets missed in: {', '.join(missed)}")
    return 1 if missed and given.strict else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
