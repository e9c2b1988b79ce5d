"""Which Python Spark's local workers run.

PySpark starts workers as `python3` from PATH. Run `venv/bin/python script.py` without activating
the environment and that is another interpreter, without Ensue: every job then dies with "No module
named 'ensue'". So on import, and only where that would happen, `PYSPARK_PYTHON` is set to the
interpreter at hand; whatever the user has set stays.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def use_this_python() -> None:
    if "PYSPARK_PYTHON" in os.environ or sys.prefix == sys.base_prefix:
        return
    found = shutil.which("python3")
    if found is None or Path(found).parent != Path(sys.prefix) / "bin":
        os.environ["PYSPARK_PYTHON"] = sys.executable
