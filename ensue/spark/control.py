"""Edits of a running stream."""

from ensue.run.lanes.signing import signed
from ensue.run.spark.control import Control, orders

__all__ = ["Control", "orders", "signed"]
