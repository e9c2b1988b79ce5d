"""Numba loops of the room `sequences`: flat arrays in, flat arrays out."""
