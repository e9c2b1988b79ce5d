"""Numba loops of the room `shared`: flat arrays in, flat arrays out."""
