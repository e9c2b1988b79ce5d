"""Front ends: any syntax to one `Query`. They hold no semantics."""
