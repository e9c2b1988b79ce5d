"""Numba loops of the room `revision`: flat arrays in, flat arrays out."""
