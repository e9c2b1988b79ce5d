"""Numba loops of the room `rows`: flat arrays in, flat arrays out."""
