"""Quantitative queries: streaming automata (Alur, Mamouras, Stanford, ICALP 2017).

`model` says what is asked, `checks` whether constant space is possible, `tokens` and `general`
evaluate any Python value, `flatten` and `columns_run` evaluate numbers by one compiled loop.
"""
