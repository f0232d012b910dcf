"""The check with nvcc passes right kernels, and fails on what it is there to find."""

import subprocess
import sys

import pytest

from rnnopt import kernels
from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.cuda import nvcc
from rnnopt.kernels import nvcc_check

RIGHT = '#include "part.cuh"\nextern "C" __global__ void k(int n, float* x) { if (n > 0) x[0] = ONE; }\n'
WARNED = RIGHT.replace("{ if", "{ int unused = n; if")
WRONG = RIGHT.replace("ONE", "TWO")


@pytest.fixture
def with_nvcc():
    nvcc.find.cache_clear()
    try:
        nvcc.find()
    except DeviceUnavailable as error:
        pytest.skip(str(error))


def checked(folder, **sources):
    """Write the files, check them for one architecture; return exit status and the lines reported."""
    (folder / "part.cuh").write_text("#define ONE 1.0f\n")
    for name, text in sources.items():
        (folder / f"{name}.cu").write_text(text)
    lines = []
    status = nvcc_check.check(folder, ("sm_90",), report=lines.append)
    return status, "\n".join(lines)


def test_right_kernels_pass_with_a_line_each(with_nvcc, tmp_path):
    assert checked(tmp_path, a=RIGHT, b=RIGHT) == (0, "a.cu sm_90 passed\nb.cu sm_90 passed\n2 passed, 0 failed")


@pytest.mark.parametrize(("source", "line", "what"), [(WARNED, 2, "unused"), (WRONG, 2, "TWO")], ids=["warning", "error"])
def test_a_planted_fault_fails_its_file_and_names_the_line(with_nvcc, tmp_path, source, line, what):
    status, report = checked(tmp_path, a=RIGHT, broken=source)
    assert status == 1
    assert "a.cu sm_90 passed" in report
    assert "broken.cu sm_90 FAILED" in report
    assert f"broken.cu({line}): error" in report
    assert what in report
    assert report.endswith("1 passed, 1 failed")


def test_an_empty_folder_does_not_pass(with_nvcc, tmp_path):
    assert checked(tmp_path) == (1, "0 passed, 0 failed")


def test_without_nvcc_one_line_and_status_2(monkeypatch):
    monkeypatch.setenv("NVCC", "/nowhere/nvcc")
    answer = subprocess.run([sys.executable, "-m", "rnnopt.kernels.nvcc_check"], capture_output=True, text=True)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert len(answer.stderr.splitlines()) == 1
    assert "NVCC=/nowhere/nvcc does not work" in answer.stderr


def test_it_compiles_every_kernel_file_for_old_and_new_cards():
    assert {kernel.file for kernel in kernels.catalogue().values()} <= {path.name for path in kernels.FOLDER.glob("*.cu")}
    assert nvcc_check.ARCHITECTURES == ("sm_75", "sm_80", "sm_90", "sm_100")
