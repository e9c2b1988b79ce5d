"""Runners: in process, and on Spark."""
