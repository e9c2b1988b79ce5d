"""Constants of RC-ACEP that were chosen by experiment, each with what it does.

`./dev bench acep` (a fifth of the work) and `./dev bench acep-figure17` (after a drift) measure
what they do; docs/decisions/0014-rc-acep.md says what else was tried. Q-learning follows Algorithms
5 and 6 of the paper. Sizes and limits that no experiment chose stand where they are used.
"""

from __future__ import annotations

# -- match vectors: into how many parts the values of each are cut ---------------------------------

WINDOWS = 6  # what is left of the window
LEVELS = 8  # error, at most
TIMES = 4  # since the last event

# -- agents ----------------------------------------------------------------------------------------

AGENT_SHARE = 5  # at most one agent per so many units of work
MAX_AGENTS = 64
SOME_AGENTS = 8  # where the budget is no number of extensions
TRIES = 5  # before the value of an action counts
REWARD = 1.0  # R
DISCOUNT = 0.9  # γ
RATE = 60.0  # α(n) = RATE / (RATE - 1 + n)
