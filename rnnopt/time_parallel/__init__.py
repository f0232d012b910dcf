"""Parallel along time: all steps of a sequence at once, by iteration.

:mod:`~rnnopt.time_parallel.hierarchy` lays the time points of all levels out, :mod:`~rnnopt.time_parallel.cycle` is the
multigrid method, the same for every system; :mod:`~rnnopt.time_parallel.systems` has a recurrence and its adjoint in NumPy,
:mod:`~rnnopt.time_parallel.ranks` shares them among ranks; :mod:`~rnnopt.time_parallel.recurrence` and
:mod:`~rnnopt.time_parallel.adjoint` write both into plans, whose rows are (interval × batch).
"""

from rnnopt.time_parallel.mgrit import MGRIT, NotConverged

__all__ = ["MGRIT", "NotConverged"]
