"""SHARP: a workload of event patterns evaluated as one, exactly or inside a bound."""
