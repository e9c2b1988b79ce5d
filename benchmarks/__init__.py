"""Benchmarks: `./dev bench NAME`. Every figure comes with the one it is compared to, in one run."""
