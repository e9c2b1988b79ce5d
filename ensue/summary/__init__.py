"""Counting the matches in a bounded summary of a stream (SuSe); `summary/evaluator.py` is the door.

- `summary/machine.py`: the counting automaton as the arrays that the kernels read.
- `summary/exact.py`: counts, sums and contributions in integers of any size, at a trigger.
- `summary/kernels/arrays.py`: what the kernels read and write, by name.
- `summary/store.py`: the retained events of one key and the selection loop over them.
- `summary/reading.py`: rows of a table to classes, times and values.
"""
