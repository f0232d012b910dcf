"""Kernel files are compiled for the card at hand, once, and whatever happens to the cache."""

import sys

import fake_cuda
import pytest

from rnnopt import kernels
from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.cuda import modules, nvcc

SM_90 = nvcc.Target("sm_90")


def write_tool(path, body):
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def tool(tmp_path, monkeypatch, forget):
    """An nvcc of the tests, that knows three architectures, counts its runs and makes a file of its arguments."""
    runs = tmp_path / "runs"
    runs.write_text("")
    path = write_tool(tmp_path / "nvcc", f"""case $1 in
        --version) echo 'nvcc, release 12.0, V12.0.1'; exit;;
        --list-gpu-code) printf 'sm_75\\nsm_90\\nsm_90a\\nsm_80\\n'; exit;;
        esac
        echo "$@" >> '{runs}'; echo "$@" > image""")
    monkeypatch.setenv("NVCC", str(path))
    monkeypatch.setenv("RNNOPT_CACHE", str(tmp_path / "cache"))
    return path, runs


def entry(tmp_path):
    [path] = (tmp_path / "cache" / "cuda").iterdir()
    return path


@pytest.mark.parametrize(("capability", "arch"), [
    ((7, 5), "sm_75"), ((8, 0), "sm_80"), ((9, 0), "sm_90"),
    ((8, 6), "compute_80"), ((10, 0), "compute_90"), ((12, 1), "compute_90"),
])
def test_a_card_that_nvcc_does_not_know_gets_ptx_of_the_newest_before_it(tool, capability, arch):
    assert nvcc.target(capability).arch == arch


def test_a_card_older_than_all_is_refused(tool):
    with pytest.raises(DeviceUnavailable, match=r"release 12.0, V12.0.1 compiles for sm_75 and newer, and the card is sm_61"):
        nvcc.target((6, 1))


def test_machine_code_and_ptx_are_asked_for_by_their_own_options(tool):
    assert b"-cubin -arch=sm_90" in modules.image("lstm.cu", SM_90)
    assert b"-ptx -arch=compute_90" in modules.image("lstm.cu", nvcc.Target("compute_90"))


def test_a_file_is_compiled_once(tool, tmp_path):
    assert modules.image("lstm.cu", SM_90) == modules.image("lstm.cu", SM_90)
    assert len(tool[1].read_text().splitlines()) == 1


@pytest.mark.parametrize("damage", [
    lambda path: path.write_bytes(path.read_bytes()[:-1]),
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(bytes(100)),
    lambda path: path.unlink(),
], ids=["truncated", "empty", "overwritten", "deleted"])
def test_a_broken_entry_is_made_again_once(tool, tmp_path, damage):
    made = modules.image("lstm.cu", SM_90)
    damage(entry(tmp_path))
    assert modules.image("lstm.cu", SM_90) == made
    assert modules.image("lstm.cu", SM_90) == made
    assert len(tool[1].read_text().splitlines()) == 2


def test_whatever_decides_the_result_is_in_the_key(tool, tmp_path, monkeypatch):
    count = 1
    modules.image("lstm.cu", SM_90)

    def compiled_anew():
        nonlocal count
        modules.image("lstm.cu", SM_90)
        count += 1
        return len(tool[1].read_text().splitlines()) == count

    sources = kernels.sources
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "sources", lambda file: {n: text + " " * (n == "common.cuh") for n, text in sources(file).items()})
        assert compiled_anew(), "a header"
    with monkeypatch.context() as patch:
        patch.setattr(nvcc, "FLAGS", ("-std=c++20",))
        assert compiled_anew(), "flags"
    write_tool(tool[0], tool[0].read_text().replace("12.0", "12.1"))
    nvcc.find.cache_clear()
    assert compiled_anew(), "the compiler's version"


def test_an_interrupted_write_leaves_nothing(tool, tmp_path, monkeypatch):
    def fail(source, target):
        raise OSError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.raises(OSError, match="interrupted"):
            modules.image("lstm.cu", SM_90)
    assert not list((tmp_path / "cache" / "cuda").iterdir())


def test_a_driver_that_refuses_an_image_is_quoted_with_both_versions(gpu, monkeypatch):
    def refuse(image):
        raise fake_cuda.LogicError("cuModuleLoadDataEx failed: unsupported toolchain")

    monkeypatch.setattr(sys.modules["pycuda.driver"], "module_from_buffer", refuse)
    with pytest.raises(RuntimeError, match=r"CUDA 13.0\) refuses lstm.cu .* sm_90 by nvcc of the tests: .*toolchain"):
        modules.load("lstm.cu", (9, 0))


def test_an_nvcc_named_that_does_not_work_is_not_replaced_by_another(monkeypatch, forget):
    monkeypatch.setenv("NVCC", "/nowhere/nvcc")
    with pytest.raises(DeviceUnavailable, match="NVCC=/nowhere/nvcc does not work: install"):
        nvcc.find()


def test_no_nvcc_at_all_says_how_to_get_one(monkeypatch, forget):
    monkeypatch.delenv("NVCC", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(DeviceUnavailable, match="no nvcc: install the CUDA toolkit's compiler"):
        nvcc.find()


def test_a_tool_that_answers_nothing_of_use_is_no_nvcc(tmp_path, monkeypatch, forget):
    monkeypatch.setenv("NVCC", str(write_tool(tmp_path / "nvcc", "echo hello")))
    with pytest.raises(DeviceUnavailable, match="does not work"):
        nvcc.find()


def test_an_error_names_the_file_and_the_line(real_nvcc):
    sources = {"broken.cu": '#include "part.cuh"\n\n__global__ void k(float* x) { x[0] = nothing; }\n', "part.cuh": "\n"}
    with pytest.raises(nvcc.CompileError, match=r"can't compile broken.cu for sm_90:\n(.*\n)*broken.cu\(3\): error: .*nothing"):
        nvcc.compile("broken.cu", sources, SM_90)


@pytest.mark.parametrize("file", sorted({kernel.file for kernel in kernels.catalogue().values()}))
def test_compiled_files_hold_their_kernels_under_their_own_names(real_nvcc, file):
    ptx = nvcc.compile(file, kernels.sources(file), nvcc.Target("compute_90")).decode()
    for kernel in kernels.catalogue().values():
        assert (f".entry {kernel.name}(" in ptx) == (kernel.file == file)
