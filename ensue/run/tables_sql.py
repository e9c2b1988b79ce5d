"""SQL over Arrow tables, by DuckDB: what stands around a row pattern when no Spark is there.

DuckDB sees the tables that it is given and nothing else: no file, no address, no extension, no
variable of the caller, and no statement can change that (docs/decisions/0098).
Its time zone is UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from ensue import errors
from ensue.extras import needed
from ensue.stopping import cancelling

_CLOSED = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}


def answer(text: str, tables: Mapping[str, pa.Table], shown: Sequence[str]) -> pa.Table:
    """The rows of a query in DuckDB's SQL over the tables; errors list those `shown`."""
    duckdb = needed("duckdb", "SQL over tables in process")
    with duckdb.connect(":memory:", config=_CLOSED) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET lock_configuration = true")
        for name, table in tables.items():
            connection.register(name, table)
        try:
            with cancelling(connection.interrupt):
                return connection.sql(text).to_arrow_table()
        except duckdb.Error as problem:
            raise errors.QueryError(
                f"the statement cannot be run over the tables given: {_told(str(problem))}",
                remedy=f"the tables are: {', '.join(shown)}",
            ) from None


def _told(message: str) -> str:
    """The first lines of an error, without its class and without tables that nobody gave."""
    lines = re.sub(r"^[\w ]+ Error: ", "", message.strip()).split("\n\n")[0].splitlines()
    kept = [line.strip().rstrip(".") for line in lines if not line.startswith("Did you mean")]
    return "; ".join(kept)
