"""AFA: automata with registers over disordered, corrected streams, with arcs that change."""
