"""Whatever ends a run, what is finished stays finished, nothing lives on, and the next run goes on from there."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy

from rnnopt.reproduce import CannotStart, stamp


@pytest.fixture
def started(finished):
    """The runner as a process that is busy with `two`, where `one` is finished; gives it and the kernel's process id."""
    source = toy.good("two", ["two.cu"])
    source["cells"].insert(1, toy.cell("import os, time\nfrom pathlib import Path\n"
                                       "Path(os.environ['TOY_PACKAGE'], '../pid').write_text(str(os.getpid()))\ntime.sleep(120)"))
    toy.write(finished.root, "two", source)
    process = subprocess.Popen([sys.executable, toy.__file__, finished.root], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, encoding="utf-8")
    wait_for(lambda: read(finished.root / "pid") or process.poll() is not None)
    kernel = int(read(finished.root / "pid"))
    yield process, kernel
    with contextlib.suppress(OSError):
        process.kill()
    process.stdout.close()
    process.wait()


def read(path):
    return path.read_text() if path.exists() else ""


def wait_for(condition, seconds=60):
    """Wait until `condition` holds; a limit on patience, not a measurement."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def alive(pid):
    """Whether a process runs; one that is dead and not yet collected does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc").exists()


def parent_of(pid):
    if Path("/proc").exists():
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return int(subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout)


def resumed(finished, run):
    """Run again with a notebook that ends; say what was printed."""
    toy.write(finished.root, "two", toy.good("two", ["two.cu"]))
    status, text = run([toy.ONE, toy.TWO])
    assert status == 0
    assert "[1/2] one  up to date" in text
    assert "[2/2] two  started (was interrupted" in text
    return text


def test_killed_runner_takes_its_notebook_along_and_the_next_run_resumes(finished, run, started):
    process, kernel = started
    middle = parent_of(kernel)
    process.kill()
    process.wait()
    wait_for(lambda: not alive(middle) and not alive(kernel))
    assert stamp.read(finished, toy.ONE)["status"] == stamp.DONE
    resumed(finished, run)


def test_ctrl_c_ends_at_once_with_the_way_to_resume(finished, started):
    process, kernel = started
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=30)
    assert not alive(kernel)
    assert "interrupted; 1 of 2 items finished and kept; resume with: " in text
    assert stamp.read(finished, toy.ONE)["status"] == stamp.DONE


def test_killed_go_between_is_explained_and_its_kernel_does_not_live_on(finished, started):
    process, kernel = started
    os.kill(parent_of(kernel), signal.SIGKILL)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "the process that executes the notebook died: signal 9, SIGKILL" in text
    assert not alive(kernel)


def test_second_runner_on_the_same_folder_is_refused_and_a_dead_ones_lock_is_free(finished, run, started):
    process, _ = started
    with pytest.raises(CannotStart, match=f"another run \\(process {process.pid}\\) is writing to .*--build"):
        run([toy.ONE])
    process.kill()
    process.wait()
    assert read(finished.build / ".lock") == f"{process.pid}\n", "the stale lock is still there"
    assert run([toy.ONE])[0] == 0


def test_what_a_killed_process_was_writing_is_swept_away(finished, run):
    litter = finished.build / "tables" / ".two.csv.0123abcd.unfinished"
    litter.write_text("half")
    run([toy.ONE, toy.TWO])
    assert not litter.exists()
