"""Numba loops of the room `quantities`: flat arrays in, flat arrays out."""
