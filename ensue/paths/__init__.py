"""Regular path queries: the product of a graph and an automaton."""
