"""Ensue finds, counts and ranks patterns of events: in tables, on Spark."""

# The sub-package `ensue.pattern` is imported before the function of that name takes its place.
from ensue import pattern as _pattern_package
from ensue import quantify
from ensue.api import Pattern, pattern, restore, sase
from ensue.automaton_api import Automaton
from ensue.chain import begin
from ensue.errors import EnsueError
from ensue.evaluate.base import Budget
from ensue.evaluate.compact_output import expand
from ensue.evaluate.path_similarity import Question
from ensue.graph_api import Graph, graph
from ensue.statements import sql
from ensue.worker_python import use_this_python
from ensue.workload import Workload, workload

__version__ = "0.1.0"
__all__ = [
    "Automaton",
    "Budget",
    "EnsueError",
    "Graph",
    "Pattern",
    "Question",
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
del _pattern_package
use_this_python()
