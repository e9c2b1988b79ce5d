"""What users hold: fluent objects around a frozen `Query`."""

from ensue.kernels.warm import tell_compiles

tell_compiles()  # Spark's workers load what is below, and stay silent
