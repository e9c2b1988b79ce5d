"""SQL row matching: one match per start row, by preference."""
