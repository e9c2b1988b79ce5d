"""Runners on Spark; the only place that imports pyspark, and only its public DataFrame API."""

from ensue.extras import needed

needed("pyspark", "running on Spark")
