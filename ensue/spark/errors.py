"""Errors that Spark's workers raised, as Ensue's own classes again."""

from ensue.run.spark.raised import own_error, own_errors

__all__ = ["own_error", "own_errors"]
