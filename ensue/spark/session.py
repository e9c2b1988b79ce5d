"""A local Spark session that is quiet and finds a Java."""

from ensue.run.spark.session import local_session

__all__ = ["local_session"]
