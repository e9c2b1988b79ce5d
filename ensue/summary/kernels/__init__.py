"""Numba loops of the room `summary`: flat arrays in, flat arrays out."""
