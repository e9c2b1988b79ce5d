"""Numba loops of the room `paths`: flat arrays in, flat arrays out."""
