"""Counting the matches in a bounded summary of a stream (SuSe); `evaluate/summary.py` is the door.

- `machine.py`: the counting automaton as the arrays that the kernels read.
- `exact.py`: counts, sums and contributions in integers of any size, at a trigger.
- `counters.py`: the StateSummary with its four families of counters, INSERT and REMOVE.
- `store.py`: the retained events of one key and the selection loop over them.
- `reading.py`: rows of a table to classes, times and values.
"""
