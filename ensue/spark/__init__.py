"""What users import of the Spark side; the runners themselves are in `ensue.run.spark`."""
