"""What a stream does, for people and for monitoring."""

from ensue.run.spark.listener import Metrics, counts_of, patterns_of, progress_line

__all__ = ["Metrics", "counts_of", "patterns_of", "progress_line"]
