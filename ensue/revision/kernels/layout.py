"""Where things stand in the arrays of the AFA operator's kernels: every column by its name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

BLOCK = 256
NONE = -1
OPEN = -2  # of UNTIL: alive at the newest event, whichever that is
ACCEPTED = -2  # of MATCH: to be reported

# Columns of `events`; those before GIVEN are also the columns of `keys`, one row per change.
LE, TIE, CONTENT, RE, IDENTITY, SEQUENCE, BITS, EVENT_NULLS, GIVEN = range(9)
PREVIOUS, NEXT, HEAD, TAIL, REACH, COLUMNS = range(8, 14)

# Columns of `nodes`. The first are kept only where intervals or closing arcs need them, so
# that the loop over events in order writes two cache lines and not three.
EDGE, SUPPORT, UNTIL, EVENT, FIRED, END, END_NAME = range(7)
AT, START, START_EVENT, START_SLOT, START_NAME, LEAST_RE, STATE, BEFORE, AFTER = range(7, 16)
MATCH, NODE_NULLS, REGISTERS = range(16, 19)

# Columns of `edges`.
CHILD, ARC, EDGE_NEXT = 0, 1, 2

# Places in `control`.
FREE_EVENT, HIGH_EVENT, EVENTS, FREE_NODE, HIGH_NODE, NODES, FREE_EDGE, HIGH_EDGE, EDGES = range(9)
FIRST, LAST, BLOCKS, FREE_BLOCK, HIGH_BLOCK, NEXT_MATCH, OPENED, STALE, GENERATION = range(9, 18)
CLEANED, HASHED, CONTROL = 18, 19, 20

# Columns of `Arcs.table`.
SOURCE, TARGET, MASK, VALUE, BEGIN, FINISH, IGNORABLE, ACCEPTS, SINCE, TILL, ARC_COLUMNS = range(11)
# Columns of `Arcs.epochs_of`: its epochs, and the one that was asked for last.
FIRST_EPOCH, END_EPOCH, HINT = range(3)
# Columns of `Arcs.initial`, before the register.
INITIAL_STATE, INITIAL_SINCE, INITIAL_TILL, INITIAL_NULLS, INITIAL_REGISTER = range(5)

# Columns of `Book.lives`.
SLOT, LIFE_SINCE, LIFE_TILL = range(3)
# Places in `Book.numbers`.
LIVES, PLACES, LASTING = range(3)
# Bits of `Book.marks`.
TO_FINAL, FIXED = 1, 2
UNFIT = -2  # of an arc that begins: it cannot be written here

# Columns of output rows; the register follows.
OPERATION, MATCH_ID, FIRST_LE, FIRST_EVENT, LAST_LE, LAST_EVENT, LIFETIME_LE, LIFETIME_RE = range(8)
FINAL_STATE, NODE, CAUSE, OUTPUT_NULLS, FIRST_NAME, LAST_NAME, OUTPUT_REGISTER = range(8, 15)

# Places in `counts`: rows put out, arcs that failed, nodes made at an event, and how many more may
# come of the next partial match, for which there was no room. Then how many there may be, of nodes,
# of nodes of one start at one event, of edges and of rows; and which of these there are more of.
ROWS, FAULTS, CREATED, WANTED, MOST_NODES, MOST_OF_START, MOST_EDGES, MOST_ROWS = range(8)
EXCEEDED, COUNTS = 8, 9
CROWDED = -2  # of a search among the nodes of one start: they are too many
MADE = 1024  # nodes after which a walk looks whether it has to stop
# Places in `walk`, where a batch of changes stands: the last change taken and its identity; the
# event that is met, by how many, which of them is next, and the step. Then what is true or not:
# the event is new, and there are events behind it; they too have to be met; all partial matches are
# made again.
CHANGE, CHANGED, MET, METS, INDEX, STEP, INSERTED, LATE, ONWARD, REMAKING, WALK = range(11)
# Of STEP.
NEXT_EVENT, MEET, TELL = range(3)
# What a walk stops for.
ENDED, OTHER_CHANGE, ROOM, CUT, ASKED = range(5)

# What a change is, and what became of it.
INSERT = 1
FROM_START = -2  # of `resume`: everything is made again
DONE, UNKNOWN, TAKEN_NUMBER, EQUAL_TIME, AGAINST_TIME = range(5)


def walk_from(resume: int) -> Numbers:
    """Before the first change: `resume` is the event after which all is made again (a change of
    arcs), FROM_START or NONE."""
    walk = np.zeros(WALK, np.int64)
    walk[CHANGE], walk[CHANGED], walk[MET] = NONE, NONE, resume
    walk[ONWARD] = walk[REMAKING] = resume != NONE
    return walk
