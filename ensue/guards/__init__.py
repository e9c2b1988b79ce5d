"""Conditions over the match so far: compiled to one register machine."""
