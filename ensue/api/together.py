"""The answers of several patterns as one table, distinguished by the column `pattern`."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from ensue import errors
from ensue.shared.listing import PATTERN


def together(found: Mapping[str, pa.Table]) -> pa.Table:
    """One table with the column `pattern`; columns that a pattern does not have are null."""
    tables = []
    for name, table in found.items():
        names = pa.array([name] * table.num_rows, pa.string())
        if PATTERN in table.column_names:
            raise errors.ReservedNameError(
                f"a column of {name!r} is called {PATTERN!r}, which names the pattern",
                remedy="give the measure or partition column another name",
            )
        tables.append(table.add_column(0, PATTERN, names))
    try:
        return pa.concat_tables(tables, promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise errors.ColumnTypeError(
            f"two patterns give columns of one name and different types: {problem}",
            remedy="give the measures different names, or cast them to one type",
        ) from None
