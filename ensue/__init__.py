"""Ensue finds, counts and ranks patterns of events: in tables, on Spark."""

from ensue import quantify
from ensue.api.automaton import Automaton
from ensue.api.chain import begin
from ensue.api.graph import Graph, graph
from ensue.api.matching import restore
from ensue.api.pattern import Pattern, pattern, sase
from ensue.api.sql import sql
from ensue.api.workload import Workload, workload
from ensue.errors import EnsueError
from ensue.operator.budget import Budget
from ensue.operator.protocol import Watermark
from ensue.paths.similarity import Question
from ensue.sequences.compact import expand
from ensue.worker_python import use_this_python

__version__ = "0.1.0"
__all__ = [
    "Automaton",
    "Budget",
    "EnsueError",
    "Graph",
    "Pattern",
    "Question",
    "Watermark",
    "Workload",
    "begin",
    "expand",
    "graph",
    "pattern",
    "quantify",
    "restore",
    "sase",
    "sql",
    "workload",
]
use_this_python()
