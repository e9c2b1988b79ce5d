"""A query as machine code of its own: its configurations as states of a finite automaton."""
