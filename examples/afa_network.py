"""Network monitoring whose rules change every second (Appendix A of the AFA paper).

    python examples/afa_network.py

A rule is a small pattern: `limit` connections in a row from one address to a port that is watched.
Each second the miner that watches the traffic replaces the rules; partial matches go on under the
rules that were in force when their events came.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import ensue

SECOND = 1_000


def rule(port: int, limit: int) -> ensue.Automaton:
    """`limit` packets in a row from one address to a port; the register keeps the address."""
    return (
        ensue.Automaton({"address": "bigint", "hits": "bigint"})
        .arc("q0", "q1", when=f"port = {port}", set={"address": "source", "hits": "1"})
        .arc("q1", "q1", when=f"port = {port} AND source = address AND hits + 1 < {limit}",
             set={"hits": "hits + 1"})
        .arc("q1", "q2", when=f"port = {port} AND source = address AND hits + 1 = {limit}",
             set={"hits": "hits + 1"})
        .final("q2")
    )  # fmt: skip


def base() -> ensue.Automaton:
    """A rule that always holds: anything to port 0 is an alarm."""
    return (
        ensue.Automaton({"address": "bigint", "hits": "bigint"}, order_by="ts", within=10 * SECOND)
        .arc("q0", "alarm", when="port = 0", set={"address": "source"})
        .final("alarm")
    )


def traffic(seconds: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    count = 100 * seconds
    return pa.table(
        {
            "ts": np.sort(random.choice(SECOND * seconds, count, replace=False)),
            "source": random.integers(1, 4, count),
            "port": random.integers(20, 24, count),
        }
    )


def watch(table: pa.Table, ports: list[int], limit: int = 2) -> list[dict[str, object]]:
    """The changes that come out while one port is watched each second."""
    matcher = base().matcher(table.schema)
    times = np.asarray(table["ts"])
    found: list[dict[str, object]] = []
    for second, port in enumerate(ports):
        old = [f"rule {second - 1}"] if second else []
        matcher.revise(add={f"rule {second}": rule(port, limit)}, remove=old)
        inside = (times >= second * SECOND) & (times < (second + 1) * SECOND)
        changes = matcher.insert(table.filter(pa.array(inside)))
        found += [{"second": second, "port": port, **row} for row in changes.to_pylist()]
        matcher.advance((second + 1) * SECOND)
    return found


if __name__ == "__main__":
    alarms = watch(traffic(10), [20, 21, 22, 23] * 2)
    print(f"{len(alarms)} alarms")
    for alarm in alarms[:5]:
        print(alarm["second"], alarm["port"], alarm["address"], alarm["first"], alarm["last"])
