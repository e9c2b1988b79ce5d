"""Ensue in one file, for executors where it is not installed."""

from ensue.run.spark.pack import Packed, pack

__all__ = ["Packed", "pack"]
