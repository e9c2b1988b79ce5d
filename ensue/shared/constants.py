"""Constants of SHARP that were chosen by experiment, each with what it does.

Those of the price of work were found with `python -m benchmarks.sharp_offline` (what could be
reached) and `python -m benchmarks.sharp --figure 4 --seed N` for N = 10 to 16; the others with the
latter command for N = 10 to 12. Figures that are published use seeds 0 to 4, which chose nothing.
Sizes and limits that no experiment chose stand where they are used.
"""

from __future__ import annotations

# -- the sketch: what a partial match is worth -----------------------------------------------------

TAU = 0.5  # of Theta = tau * size + (1 - tau) * conditions
FADE = 0.93  # of the sketch is left after each quarter of a window
LEAST_FADE = 64.0  # rows between two fadings, where windows are short
LITTLE = 0.1  # matches that a node is taken to have had before anything is known
LEAST_LIVED = 0.1  # of the partial matches of a node count as having had their time
SKETCH_PRIOR = 1.0  # partial matches with a whole window: what the mean of the node weighs
EXPLORE = 0.01  # of what would be shed at birth is kept, to see whether it has become better
MAX_KEYS = 128  # buckets of one node
MOST_FEATURES = 3  # that tell the partial matches of a node apart

# -- keeping to a bound ----------------------------------------------------------------------------

SAFETY = 0.94  # of a bound is aimed at: the moving average swings by some percent around that
SAFETY_PRICED = 0.90  # where work has a price
LEAST_BOUND = 2e-6  # seconds that an event takes under a bound, whatever is shed
# Seconds that an event took where a share was measured on the first rows, and the others shed (11
# to 12 µs on Citi Bike's trips): the exact answer is tried up to here.
SHEDDING = 1e-5
CHECK_EVERY = 16  # rows between two looks at the load
LEAST_LIFE = 1e-3  # of a window: what is nearly over still costs a little
ROOM = 0.95  # of the bound is in use after a selection
FREE_AGAIN = 0.95  # of the bound: below, the cut falls
FAR_OVER = 1.05  # of the bound: up to here a higher cut is enough
AVERAGED, AHEAD = 1000, 50  # rows of the moving average, and those of them still to come
# What the last rows left of the bound is spent over so many rows; never less and never more than
# these parts of the bound, so that one tight stretch does not shed everything.
SPREAD, CAREFUL, LEAST, GREATEST = 300.0, 0.93, 0.5, 3.0

# -- the price of work (docs/decisions/0062) -------------------------------------------------------

STEP = 0.5  # octaves between the prices that are solved for
GROWTH = 1.07  # of what a count adds, per quarter of a window
PRICE_PRIOR = 3.0  # events that visited: what bucket times class weighs against the cell
PATIENCE = 16  # levels below the price: a partial match may become worth visits again
# What the last rows left is spent over so many rows; of the visits by level so much is left after
# each check; levels that the price may fall with each; above this share of the bound it rises by so
# many levels per bound (seeds 10 to 13, 15, 16).
STEADY, SLOWLY, FORGET, FALL, NEARLY, STEEP = 0.88, 500.0, 0.9, 3, 0.95, 60.0
# Solved anew, in visits since by those that are counted still: where what came of them is off by a
# factor, and in any case.
ANEW, LEAST_ANEW, ANYWAY = 0.25, 1000.0, 8.0
OFF, LEAST_OFF, UNKNOWN = 1.5, 50.0, 0.25

# -- what was lost, by estimate --------------------------------------------------------------------

# What was lost lies between two sums, by the means of what was seen and of what was lived, and is
# off by such factors at their ends (seeds 10 and 11): bursts in which many matches share a few rare
# events are not in the means.
LOST_LESS, LOST_MORE = 4.0, 2.0
# Of all matches: gains of visits passed over that are too small to tell from none add up to this
# (seeds 10 to 16, bounds from 30 % on).
LOST_HARDLY = 0.025

# -- start rows of row patterns: `python -m benchmarks.sharp --figure 6 --seed 10` -----------------

EXPLORE_STARTS = 0.02  # of the start rows are tried whatever they are worth
MOST_EXPLORED = 0.25  # of those that may be tried are at most such ones
FADE_STARTS = 0.9  # of their sketch is left after each block
TEACHING = 0.1  # of the rows teach, where there is no history
