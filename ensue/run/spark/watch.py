"""Progress of an action on Spark, in terminals and notebooks: tasks, rows and the time left.

Spark has no call by which both kinds of session tell how far an action is. Connect tells its
handlers. A classic session answers on the REST interface of its web page, where the action's jobs
are found by a tag (`addTag`). Where neither answers (`spark.ui.enabled=false`, a page behind a
login) or nobody looks, nothing is asked or shown.

Rows read, rows written and tasks are those of the stages that run, and grow with each task that
ends. Matches that are not written but counted or collected have no number before the end: Spark
keeps what a Python step gave until the statement is over.

Rejected: the status tracker of the context, which Connect and shared clusters do not have, and
reports of the workers to a socket of the driver, which networks of clusters block.
"""

from __future__ import annotations

import json
import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ensue import progress
from ensue.progress import Tasks
from ensue.run.spark.quiet import asking

EVERY = 0.5  # seconds between two questions
PATIENCE = 30.0  # seconds for an answer; the first one starts the interface
PORTS = 16  # Spark's own number of tries for a free port
_REFUSED = (PySparkException, Py4JError)


@contextmanager
def watched(spark: SparkSession, title: str) -> Iterator[None]:
    """Show the progress of the actions inside."""
    own_bar = progress.is_seen() and _read(spark, "spark.ui.showConsoleProgress") == "true"
    with progress.tasks(title, own_bar) as show:
        if show is None:
            yield
            return
        remote = type(spark).__module__.startswith("pyspark.sql.connect")
        with _handling(spark, show) if remote else _polling(spark, show):
            yield


class Page:
    """The REST interface of a classic session, asked about the jobs that carry a tag."""

    def __init__(self, spark: SparkSession, tag: str) -> None:
        self._application = _read(spark, "spark.app.id") or ""
        host = _read(spark, "spark.driver.host") or "localhost"
        first = int(_read(spark, "spark.ui.port") or 4040)
        self._pages = [f"http://{host}:{port}/api/v1" for port in range(first, first + PORTS)]
        self._home: str | None = None
        self._tag = tag
        # The driver is on this machine: no proxy stands between.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def state(self) -> Tasks | None:
        """How far the jobs are; None while none runs. Raises OSError where nothing answers."""
        jobs = [
            job
            for job in self._get("/jobs?status=running")
            if any(tag.endswith(self._tag) for tag in job.get("jobTags", ()))
        ]
        ids = {stage for job in jobs for stage in job["stageIds"]}
        stages = [one for one in self._get("/stages?status=active") if one["stageId"] in ids]
        if not stages:
            return None
        return Tasks(
            sum(stage["numCompleteTasks"] for stage in stages),
            sum(stage["numTasks"] for stage in stages),
            sum(max(stage["inputRecords"], stage["shuffleReadRecords"]) for stage in stages),
            sum(stage["outputRecords"] for stage in stages),
        )

    def _get(self, what: str) -> Any:
        if self._home is None:
            self._home = self._find()
        return self._read(f"{self._home}/applications/{self._application}{what}")

    def _find(self) -> str:
        """The page of this session: others on the machine take the ports before it."""
        for page in self._pages:
            try:
                shown = self._read(f"{page}/applications")
            except (OSError, ValueError):
                continue
            if any(one.get("id") == self._application for one in shown):
                return page
        raise OSError("no page of this session")

    def _read(self, address: str) -> Any:
        with self._opener.open(address, timeout=PATIENCE) as answer:
            return json.load(answer)


@contextmanager
def _polling(spark: SparkSession, show: Callable[[Tasks], None]) -> Iterator[None]:
    tag = f"ensue-{uuid.uuid4().hex}"
    try:
        spark.addTag(tag)
    except _REFUSED:  # a cluster that guards its JVM: the action runs, unwatched
        yield
        return
    page, over = Page(spark, tag), threading.Event()

    def ask() -> None:
        while not over.wait(EVERY):
            try:
                state = page.state()
            except (OSError, ValueError, KeyError):
                return  # no page, or one that does not speak to us
            if state is not None:
                show(state)

    asker = threading.Thread(target=ask, name="ensue-progress", daemon=True)
    asker.start()
    try:
        yield
    finally:
        over.set()
        spark.removeTag(tag)


@contextmanager
def _handling(spark: Any, show: Callable[[Tasks], None]) -> Iterator[None]:
    def told(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        running = [stage for stage in stages if not done]
        if running:
            show(
                Tasks(
                    sum(stage.num_completed_tasks for stage in running),
                    sum(stage.num_tasks for stage in running),
                )
            )

    spark.registerProgressHandler(told)
    try:
        yield
    finally:
        spark.removeProgressHandler(told)


def _read(spark: SparkSession, name: str) -> str | None:
    try:
        with asking():
            return spark.conf.get(name)
    except _REFUSED:
        return None
