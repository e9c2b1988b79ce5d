"""Pictures: automata, shared plans, matches on a time line."""
