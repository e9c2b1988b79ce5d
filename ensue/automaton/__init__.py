"""The second IR: how to recognise. Flat arrays compiled from a `Query`."""
