"""What an expression means: kinds, functions, casts, on Arrow columns and on plain values."""
