"""Numba loops of the room `missing`: flat arrays in, flat arrays out."""
