"""Event patterns: all matches under their selection policies, kept compact."""
