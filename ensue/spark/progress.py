"""Progress of Spark's actions that a program runs itself."""

from ensue.run.spark.watch import watched

__all__ = ["watched"]
