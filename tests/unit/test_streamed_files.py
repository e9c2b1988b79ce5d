"""A large Parquet file is matched as it is read, and gives what the whole table gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ensue
from ensue import errors
from ensue.api.tables import to_arrow
from ensue.operator.notices import Notices
from ensue.run import streamed


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is large, and batches have seven rows."""
    monkeypatch.setattr(streamed, "LARGE", 0)
    monkeypatch.setattr(streamed, "BATCH", 7)


def written(folder: Path, table: pa.Table, group: int = 11) -> Path:
    pq.write_table(table, folder / "events.parquet", row_group_size=group)
    return folder / "events.parquet"


def ticks(rows: int, seed: int = 3, tied: bool = False) -> pa.Table:
    numbers = random.Random(seed)
    order = sorted(numbers.randrange(rows // 2) for _ in range(rows)) if tied else range(rows)
    return pa.table(
        {
            "t": pa.array(order, pa.int64()),
            "price": [float(numbers.randint(1, 6)) for _ in range(rows)],
            "kind": [numbers.choice("ABC") for _ in range(rows)],
            "unread": ["x" * 40] * rows,
        }
    )


PATTERNS: dict[str, Any] = {
    "neighbours": ensue.pattern("A B+ C+")
    .define(B="price < PREV(price)", C="price > PREV(price)")
    .measures(first="FIRST(A.t)", n="COUNT(*)", number="MATCH_NUMBER()"),
    "correlated": ensue.pattern("A B* C").define(C="price > A.price + 3"),
    "window": ensue.pattern("A+ C", types="kind").within(9).after_match("next row"),
    "end": ensue.pattern("A+ $", types="kind"),
    "all rows": ensue.pattern("A+ B", types="kind").rows_per_match("all rows"),
    "next": ensue.pattern("A B").define(B="NEXT(price) > price"),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("tied", [False, True])
def test_batches_give_what_the_table_gives(tmp_path: Path, name: str, tied: bool) -> None:
    table = ticks(97, tied=tied)
    q = PATTERNS[name].order_by("t", ties="ignore")
    expected = q.matches(table)
    path = written(tmp_path, table)
    found = streamed.run(q.query, path, Notices(), to_arrow)
    assert found is not None and found.equals(expected)
    assert q.matches(str(path)).equals(expected)
    assert expected.num_rows or name == "end"


@pytest.mark.usefixtures("small")
def test_ties_are_counted_as_in_the_table(tmp_path: Path) -> None:
    table = ticks(97, tied=True)
    path = written(tmp_path, table)
    q = PATTERNS["neighbours"].order_by("t", ties="error")
    problems = []
    for data in (table, path):
        with pytest.raises(errors.TiesError) as raised:
            q.matches(data)
        problems.append(raised.value.problem)
    assert problems[0] == problems[1]


@pytest.mark.usefixtures("small")
def test_a_file_out_of_order_is_read_whole(tmp_path: Path) -> None:
    table = ticks(60)
    table = table.take(pa.array([*range(30, 60), *range(30)]))
    path = written(tmp_path, table)
    q = PATTERNS["neighbours"].order_by("t")
    assert streamed.run(q.query, path, Notices(), to_arrow) is None
    assert q.matches(path).equals(q.matches(table))


@pytest.mark.usefixtures("small")
def test_what_needs_the_whole_table_gets_it(tmp_path: Path) -> None:
    path = written(tmp_path, ticks(40))
    by_key = PATTERNS["neighbours"].order_by("t").partition_by("kind")
    events = ensue.pattern("A -> B", types="kind").order_by("t")
    for q in (by_key, events):
        assert streamed.run(q.query, path, Notices(), to_arrow) is None


@pytest.mark.usefixtures("small")
def test_a_folder_and_encoded_columns(tmp_path: Path) -> None:
    table = ticks(80)
    encoded = table.set_column(2, "kind", table.column("kind").dictionary_encode())
    pq.write_table(encoded.slice(0, 33), tmp_path / "1.parquet")
    pq.write_table(encoded.slice(33), tmp_path / "2.parquet")
    q = PATTERNS["window"].order_by("t")
    found = streamed.run(q.query, tmp_path, Notices(), to_arrow)
    assert found is not None and found.equals(q.matches(table))
