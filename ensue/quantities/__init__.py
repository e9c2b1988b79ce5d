"""Quantitative queries: streaming automata (Alur, Mamouras, Stanford, ICALP 2017).

`model` says what is asked; `checks` says whether constant space is possible, by `predicates` (z3,
`encoding`) and `language`. `tokens` and `general` evaluate any Python value, `flatten` and
`assemble` turn numbers into arrays for a compiled loop; `run` chooses. `stages`, `windows`,
`groups` and `pipes` are the queries around automata, `bound` what they are once their columns are
known, `memory` what they keep, `operator` the protocol that runners drive.
"""
