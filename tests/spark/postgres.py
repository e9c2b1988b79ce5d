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

import pytest

PROGRAMS = ("initdb", "pg_ctl", "psql")


class Server:
    """Asked with psql, so that no driver is needed."""

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

    @property
    def connection(self) -> str:
        """What drivers are given."""
        return f"host={self.folder} user=ensue dbname=postgres"


@contextmanager
def server() -> Iterator[Server]:
    """A server on a socket of its own; the test is skipped where there is no PostgreSQL."""
    owner: dict[str, Any] = {}
    if os.geteuid() == 0:  # which PostgreSQL refuses to run as
        names = {user.pw_name: user for user in pwd.getpwall()}
        if "postgres" not in names:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        user = names["postgres"]
        owner = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    for program in PROGRAMS:
        if shutil.which(program) is None:
            pytest.skip(f"there is no PostgreSQL here: {program} is not on PATH")
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
