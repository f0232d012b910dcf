"""The checked build as a person meets it: its command, its refusals, and what it says where it can't work."""

import subprocess
import sys

import numpy as np
import pytest
from twins import make_case

from rnnopt import kernels
from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.host import compiler
from rnnopt.devices.host.checked import Case, build, run
from rnnopt.devices.host.checked.__main__ import main, shapes
from rnnopt.devices.host.checked.report import SanitizerError

TRANSPOSE = kernels.FOLDER / "transpose.cu"


@pytest.fixture
def case():
    return make_case(kernels.get("transpose"), 3, 5, 4, (1, 1))


def changed(case, **fields):
    return Case(**(vars(case) | fields))


@pytest.mark.parametrize("look_for", ["races"], indirect=True)
def test_command_shows_a_learner_the_race_in_a_few_lines(tmp_path, look_for):
    path = tmp_path / "mine.cu"
    path.write_text(TRANSPOSE.read_text(encoding="utf-8").replace("__syncthreads();", "", 1), encoding="utf-8")
    command = [sys.executable, "-m", "rnnopt.devices.host.checked", str(path), "--kernel", "transpose", "--block", "33"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 1
    assert "data race on element" in answer.stdout
    assert "tile[i][j] = x[" in answer.stdout
    assert len(answer.stdout.splitlines()) < 15
    assert answer.stderr == ""


def test_command_ends_well_for_every_kernel_of_the_package(capsys, look_for):
    for path in sorted(kernels.FOLDER.glob("*.cu")):
        assert main([str(path), "--rows", "3", "--cols", "40", "--block", "8", "--look-for", look_for]) == 0
    assert capsys.readouterr().out.count(f"{look_for}: clean") == len(kernels.catalogue())


@pytest.mark.parametrize("look_for", ["memory"], indirect=True)
def test_command_tells_of_elements_that_were_never_written(tmp_path, capsys, look_for):
    path = tmp_path / "mine.cu"
    text = (kernels.FOLDER / "elementwise.cu").read_text(encoding="utf-8")
    path.write_text(text.replace("FOR_EACH_COLUMN(j, cols)", "FOR_EACH_COLUMN(j, cols - 1)"), encoding="utf-8")
    assert main([str(path), "--kernel", "add", "--rows", "4", "--look-for", look_for]) == 1
    assert "y: 4 of 400 elements are NaN" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "message"), [
    (["--kernel", "transposed"], "transpose.cu has no kernel 'transposed'; it has transpose"),
    (["--block", "1025"], "block 1 to 1024"),
])
def test_command_refuses_in_one_line(capsys, arguments, message):
    assert main([str(TRANSPOSE), *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--rows", "0"], ["--cols", "-3"], ["--block", "all"], ["--grid", "2"]])
def test_command_refuses_what_is_no_size(capsys, arguments):
    with pytest.raises(SystemExit):
        main([str(TRANSPOSE), *arguments])
    assert f"argument {arguments[0]}: expected " in capsys.readouterr().err


def test_command_names_a_file_that_is_not_there(tmp_path, capsys):
    assert main([str(tmp_path / "none.cu")]) == 2
    assert "none.cu" in capsys.readouterr().err


def test_shapes_are_read_from_comments_alone():
    text = "// x, y  rows × 3H  gates\n// w is cols × rows, b: 2 cols\nfloat z;  // z is rows × cols\n"
    assert shapes(text, 2, 5) == {"x": (2, 15), "y": (2, 15), "w": (5, 2), "b": (10,)}


@pytest.mark.parametrize(("fields", "message"), [
    ({"kernel": "turn"}, "transpose.cu has no kernel 'turn'; it has transpose"),
    ({"lds": {"x": 5}}, "kernel transpose takes x, y; got arrays x, y and lds x"),
    ({"rows": 0}, "must be at least 1"),
    ({"grid": (1, 0)}, "must be at least 1"),
    ({"block": 1025}, "block 1 to 1024"),
])
def test_case_that_does_not_fit_the_signature_is_refused(case, fields, message):
    with pytest.raises(ValueError, match=message):
        run(TRANSPOSE, [changed(case, **fields)])


@pytest.mark.parametrize("scalars", [{}, {"first": 0, "layer": 0, "scale": 2.0, "threshold": 0}])
def test_scalars_that_are_missing_or_in_another_order_are_refused(scalars):
    kernel = kernels.get("dropout")
    case = changed(make_case(kernel, 3, 5, 4, (1, 1)), scalars=scalars)
    with pytest.raises(ValueError, match="kernel dropout takes the scalars first, layer, threshold, scale; got (none|first, layer, scale)"):
        run(kernels.FOLDER / kernel.file, [case])


@pytest.mark.parametrize("array", [np.zeros(15), np.zeros((3, 5), np.float32)])
def test_array_of_another_type_or_shape_is_refused(case, array):
    with pytest.raises(TypeError, match="array x must be float32 of one dimension"):
        run(TRANSPOSE, [changed(case, arrays=case.arrays | {"x": array})])


def test_what_is_looked_for_must_be_known(case):
    with pytest.raises(ValueError, match="look_for must be one of 'memory', 'races', got 'thread'"):
        run(TRANSPOSE, [case], "thread")


@pytest.mark.parametrize("look_for", ["memory"], indirect=True)
@pytest.mark.parametrize("declaration", ["extern __shared__ float tile[];", "__shared__ float a[2], b[2];"])
def test_shared_array_in_another_form_is_refused_with_its_line(tmp_path, case, declaration, look_for):
    path = tmp_path / "mine.cu"
    lines = TRANSPOSE.read_text(encoding="utf-8").splitlines()
    number = next(n for n, line in enumerate(lines) if "__shared__" in line)
    lines[number] = declaration
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"mine\.cu:{number + 1}: .* declare each shared array alone"):
        run(path, [case], look_for)


@pytest.mark.parametrize("look_for", ["memory"], indirect=True)
def test_compile_error_names_the_file_and_the_line(tmp_path, case, look_for):
    path = tmp_path / "mine.cu"
    path.write_text(TRANSPOSE.read_text(encoding="utf-8").replace("int height", "int heigth"), encoding="utf-8")
    number = next(n for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if "i < height" in line)
    with pytest.raises(compiler.BuildError, match=rf"mine\.cu:{number}:"):
        run(path, [case], look_for)


@pytest.mark.parametrize("look_for", ["memory"], indirect=True)
def test_kernel_that_does_not_end_is_stopped_and_its_launch_named(tmp_path, case, look_for):
    path = tmp_path / "mine.cu"
    endless = "volatile int forever = 1;\n    while (forever) {}\n    __shared__"
    path.write_text(TRANSPOSE.read_text(encoding="utf-8").replace("__shared__", endless, 1), encoding="utf-8")
    with pytest.raises(SanitizerError, match="no end within 1 s\n.*transpose, 3 × 5"):
        run(path, [changed(case, block=1)], look_for, timeout=1)


def test_sanitiser_that_does_not_work_is_named_with_the_reason(cxx, monkeypatch):
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-no-such-flag"))
    build._probe.cache_clear()
    try:
        with pytest.raises(DeviceUnavailable, match=r"looking for races needs -fsanitize=thread.*no-such-flag"):
            build.runner("races")
    finally:
        build._probe.cache_clear()
