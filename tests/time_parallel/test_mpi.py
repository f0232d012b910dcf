"""Ranks that are processes have the results of one, and one that fails ends all."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="needs mpi4py and an MPI, the extra 'mpi': pip install '.[mpi]'")
MPIEXEC = Path(sys.executable).parent / "mpiexec"
MPIEXEC = str(MPIEXEC) if MPIEXEC.exists() else shutil.which("mpiexec")
pytestmark = [pytest.mark.mpi, pytest.mark.skipif(MPIEXEC is None, reason="needs mpiexec, which the wheel 'mpich' brings")]

SCRIPT = """
import pathlib, sys
sys.path[:0] = [{here!r}]
from rnnopt.time_parallel.mpi import MPITransport, end_all_on_error
from rnnopt.time_parallel.hierarchy import Hierarchy
from test_cycle import Problem, error
import numpy as np
import test_ranks

end_all_on_error()
p, hierarchy = Problem(steps=93, hidden=5, batch=2), Hierarchy(93, (4, 2))
p.d_outputs[:] = np.random.default_rng(3).standard_normal(p.d_outputs.shape)
transport = MPITransport()
if {fail} and transport.rank == 1:
    raise ZeroDivisionError("planted on rank 1")
outputs, gradient, norms, _ = test_ranks.rank_of(p, hierarchy, (0, 1), 3, "V", transport)
transport.finish()
exact_outputs, exact_gradient, exact_norms, _ = test_ranks.whole(p, hierarchy, (0, 1), 3, "V")
share = test_ranks.shares(hierarchy, transport.size)[transport.rank]
exact = exact_outputs[:, 8 * share.first:8 * share.end]
assert error(outputs[:, :exact.shape[1]], exact) < 1e-13
assert error(gradient, exact_gradient) < 1e-13 and np.allclose(norms, exact_norms)
(pathlib.Path({out!r}) / str(transport.rank)).touch()
"""


def start(ranks, out, fail=False):
    script = SCRIPT.format(here=str(Path(__file__).parent), out=str(out), fail=fail)
    return subprocess.run([MPIEXEC, "-n", str(ranks), sys.executable, "-c", script], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_processes_have_the_results_of_one(ranks, tmp_path):
    done = start(ranks, tmp_path)
    assert done.returncode == 0, done.stderr
    # Of what several processes print at their end, mpiexec may lose some: so each leaves a file.
    assert sorted(path.name for path in tmp_path.iterdir()) == [str(k) for k in range(ranks)]


def test_a_process_that_fails_ends_all_with_its_traceback(tmp_path):
    done = start(3, tmp_path, fail=True)
    assert done.returncode != 0
    assert "ZeroDivisionError: planted on rank 1" in done.stderr
    assert not list(tmp_path.iterdir())
