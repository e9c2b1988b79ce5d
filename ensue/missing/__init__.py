"""Matches with events missing: ACEP and RC-ACEP (Li and Ge, VLDB 2016).

`words` finds what is missing from a list of labels; `subsets` makes exact matching with row
conditions a case of the shared match graph. Where conditions read other events, `compiled` asks
them, and `guarded` those that kernels cannot hold. `nodes`, `history` and `budget` are RC-ACEP, and
without a history every match node; `bundles` is what a budget leaves to recover; `tracks` keeps
partitions that come in pieces; `columns` is the output.
"""
