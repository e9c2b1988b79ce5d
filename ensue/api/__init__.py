"""What users hold: fluent objects around a frozen `Query`."""
