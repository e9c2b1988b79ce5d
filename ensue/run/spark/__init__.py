"""Runners on Spark; the only place that imports pyspark, and only its public DataFrame API."""
