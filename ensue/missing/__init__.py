"""Matches with events missing: ACEP and RC-ACEP (Li and Ge, VLDB 2016).

`words` finds what is missing from a list of labels; `subsets` makes exact matching with row
conditions a case of the shared match graph; `compiled` follows match nodes where conditions read
other events, `guarded` those that kernels cannot hold; `nodes`, `history` and `budget` are RC-ACEP,
`bundles` what it leaves to recover; `tracks` keeps partitions that come in pieces; `columns` is the
output.
"""
