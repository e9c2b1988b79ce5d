"""The studio inside a notebook, or on a page of its own where there is none.

Jupyter and marimo show the same component as the page does: anywidget carries the messages that
HTTP carries elsewhere. The widget holds the desk, whose process does the matching, so a notebook
stays free while a pattern runs.
"""

from __future__ import annotations

import contextlib
import sys
import webbrowser
from collections.abc import Mapping
from typing import Any

from ensue import errors
from ensue.api.pattern import Pattern
from ensue.extras import needed
from ensue.studio.desk import Desk
from ensue.studio.server import built_page, serve
from ensue.studio.texts import Typed
from ensue.studio.written import in_language

NAME = "data"
UNSEEN = (
    "Ensue studio: this notebook shows no widgets. Install jupyterlab_widgets and anywidget where "
    "Jupyter itself runs, and reload the page; or run `ensue studio` in a terminal."
)


def open_studio(
    pattern: Pattern | None, data: Any, *, port: int | None = None, browser: bool = True
) -> Any:
    """A widget in a notebook; elsewhere a page of its own, until `stop()` or the end of Python."""
    built_page()
    sources: dict[str, Any] = {} if data is None else {NAME: data}
    query = None if pattern is None else typed_of(pattern)
    if in_notebook():
        return widget(sources, query)
    served = serve(sources, query=query, port=port)
    print(f"Ensue studio: {served.url}")
    if browser:
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(served.url)
    return served


def typed_of(pattern: Pattern) -> Typed:
    """The pattern as text: in the pattern language where it has the words, else in Python."""
    refused = ""
    for language in ("pattern", "python", "sql"):
        written = in_language(pattern.query, language)
        if "query" in written:
            return Typed.of(written["query"])
        refused = written["refused"]
    raise errors.UnsupportedError(
        f"the pattern cannot be written as text: {refused}",
        remedy="open the data alone, and write the pattern on the page",
    )


def in_notebook() -> bool:
    """Whether this is Jupyter or marimo, which show widgets."""
    marimo = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return True
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def widget(sources: Mapping[str, Any], query: Typed | None) -> Any:
    """The component; `close()` ends its process."""
    anywidget = needed("anywidget", "the studio in a notebook")
    page = built_page()

    base: Any = anywidget.AnyWidget

    class Studio(base):  # type: ignore[misc]
        _esm = page / "widget.js"
        _css = page / "widget.css"

        def __init__(self) -> None:
            super().__init__()
            self.desk = Desk(sources, query)
            self.on_msg(self._taken)

        def _taken(self, _: Any, message: Any, __: Any) -> None:
            if isinstance(message, dict):
                self.desk.take(message, self.send)

        def __repr__(self) -> str:
            """What is shown where no widget can be."""
            return UNSEEN

        def close(self) -> None:
            self.desk.close()
            super().close()

    return Studio()
