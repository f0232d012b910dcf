"""``python -m rnnopt.gpu_check``: probes, tests and measurements, one after the other, until all is done or the time is out."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from time import monotonic

from rnnopt import devices, doctor, paths, provenance
from rnnopt.gpu_check.cases import cases
from rnnopt.gpu_check.cudnn import NoPeer

VERDICTS = ("done", "failed", "no time", "no peer")


def main(arguments=None) -> int:
    """Run the check; return 0 if nothing failed (what the time did not allow, or lacks its peer, has not failed)."""
    parser = argparse.ArgumentParser(prog="python -m rnnopt.gpu_check", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/gpu-check"), help="folder for summary and records (default: %(default)s)")
    parser.add_argument("--device", default="cuda", help="what to check (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=7.5, help="time after which nothing new is begun (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="at toy size, to see that everything runs")
    parser.add_argument("--no-tests", action="store_true", help="measure only")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    os.environ["RNNOPT_BUILD"] = str(given.out.absolute())
    check = Check(given.out, monotonic() + 60 * given.minutes)
    check.run("doctor", _doctor)
    try:
        chosen = devices.resolve(given.device)
        print(devices.status_line(chosen), flush=True)
    except devices.DeviceUnavailable as error:
        print(f"{given.device} is not there: {error}", file=sys.stderr)
        return 2
    if not given.no_tests:
        check.run("tests", lambda: _tests(given.out, given.device, check.left()))
    for case in cases(given.device, given.quick):
        check.run(case.title, lambda case=case: case.measure()["key"])
    return check.finish(chosen)


class Check:
    """Runs one thing after the other, and keeps what came of each in ``summary.json``.

    Parameters
    ----------
    out : Path
    deadline : float
        By :func:`time.monotonic`.
    """

    def __init__(self, out, deadline):
        self._out, self._deadline, self._results = out, deadline, []

    def left(self) -> float:
        return self._deadline - monotonic()

    def run(self, title, action):
        """Do `action` unless the time is out; a failure is written down and the rest goes on."""
        start = monotonic()
        if self.left() <= 0:
            verdict, told = "no time", ""
        else:
            try:
                verdict, told = "done", action()
            except NoPeer as error:
                verdict, told = "no peer", str(error)
            except Exception as error:
                verdict, told = "failed", f"{type(error).__name__}: {error}"
        result = {"what": title, "verdict": verdict, "seconds": round(monotonic() - start, 2), "told": told}
        self._results.append(result)
        print(f"{verdict:<8} {result['seconds']:7.1f} s  {title}" + (f"  {told}" if verdict in ("failed", "no peer") else ""), flush=True)
        paths.atomic_write(self._out / "summary.json", json.dumps(self._results, indent=1))

    def finish(self, device) -> int:
        """Write the summary with what it was measured on; return the exit status."""
        count = {verdict: sum(result["verdict"] == verdict for result in self._results) for verdict in VERDICTS}
        about = {"device": device.describe(), "environment": provenance.environment(), "counts": count, "results": self._results}
        paths.atomic_write(self._out / "summary.json", json.dumps(about, indent=1))
        print(f"{count['done']} done, {count['failed']} failed, {count['no time']} left out for want of time, "
              f"{count['no peer']} for want of PyTorch; "
              f"records in {self._out}: rnnopt import-records {self._out} --machine NAME")
        return 1 if count["failed"] else 0


def _doctor():
    text = StringIO()
    with redirect_stdout(text):
        doctor.main()
    print(text.getvalue(), end="", flush=True)
    return text.getvalue().splitlines()


def _tests(out, device, seconds):
    """The tests that are marked for a GPU, in a process of their own; they can't take more than half of what time is left."""
    report = f"--junitxml={out.absolute() / 'tests.xml'}"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", report, "tests"]
    done = subprocess.run(command, cwd=paths.checkout_root(), capture_output=True, text=True, timeout=max(60, seconds / 2))
    paths.atomic_write(out / "tests.txt", done.stdout + done.stderr)
    last = (done.stdout.strip().splitlines() or ["pytest printed nothing"])[-1]
    if done.returncode:
        raise RuntimeError(f"pytest: {last} (see tests.txt)")
    return last


if __name__ == "__main__":
    sys.exit(main())
