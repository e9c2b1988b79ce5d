"""Numba loops over flat arrays. Nothing here knows queries, Arrow or Spark."""

from ensue.kernels import kept as kept  # before any kernel is loaded
from ensue.kernels import options as options  # and before one is compiled
