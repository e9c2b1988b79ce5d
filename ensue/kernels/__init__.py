"""Numba loops over flat arrays. Nothing here knows queries, Arrow or Spark."""
