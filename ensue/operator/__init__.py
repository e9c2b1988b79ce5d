"""Evaluators: one operator protocol, one file (or small folder) per algorithm."""
