"""Streams as lanes: all keys of a hash bucket, one step per micro-batch; knows no Spark."""
