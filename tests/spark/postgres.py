"""A PostgreSQL server for one test, where its programs are installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("initdb", "pg_ctl", "psql")


class Server:
    """Talked to with psql, so that no driver is needed."""

    def __init__(self, folder: Path, owner: dict[str, Any]) -> None:
        self.folder, self.owner = folder, owner

    def psql(self, script: str) -> str:
        """Run a script in one transaction; what it shows."""
        command = ["psql", "-h", str(self.folder), "-U", "ensue", "-d", "postgres", "-qAt"]
        command += ["-v", "ON_ERROR_STOP=1", "--single-transaction", "-f", "-"]
        done = subprocess.run(
            command, input=script, text=True, capture_output=True, check=False, **self.owner
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def copied(self, before: list[str], copy: str, rows: list[Any], after: list[str]) -> None:
        """Statements, rows into a table, statements."""
        lines = ["\t".join("\\N" if v is None else str(v) for v in row) for row in rows]
        told = [*(f"{text};" for text in before), f"{copy};", *lines, "\\."]
        self.psql("\n".join([*told, *(f"{text};" for text in after), ""]))


@contextmanager
def server() -> Iterator[Server | None]:
    """A server on a socket of its own; None where there is no PostgreSQL."""
    owner: dict[str, Any] = {}
    if os.geteuid() == 0:  # which PostgreSQL refuses to run as
        names = {user.pw_name: user for user in pwd.getpwall()}
        if "postgres" not in names:
            yield None
            return
        user = names["postgres"]
        owner = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    if not all(map(shutil.which, PROGRAMS)):
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # the path of a socket must be short
    try:
        if owner:
            os.chown(folder, owner["user"], owner["group"])
        data = str(folder / "data")
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, **owner}
        made = ["initdb", "-D", data, "-U", "ensue", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(made, check=True, cwd=folder, **quiet)
        options = f"-c listen_addresses='' -c fsync=off -k {folder}"
        start = ["pg_ctl", "-D", data, "-w", "-o", options, "-l", f"{data}/log", "start"]
        subprocess.run(start, check=True, cwd=folder, **quiet)
        try:
            yield Server(folder, {**owner, "cwd": folder})
        finally:
            stop = ["pg_ctl", "-D", data, "-m", "fast", "stop"]
            subprocess.run(stop, check=True, cwd=folder, **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
