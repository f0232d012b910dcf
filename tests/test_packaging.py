"""The promises of the files a user installs from: one set of dependencies, named alike in every file, and pinned."""

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA_NAMES = {"nvidia-cublas": "libcublas"}
TOOLKIT = {"cuda-cudart-dev", "cuda-nvcc", "cuda-version"}  # not Python packages, so only conda can name them


def named(*extras: str, core: bool = True) -> dict[str, Requirement]:
    """Return the requirements of pyproject.toml by name: the core's, and those of `extras`."""
    optional = PROJECT["optional-dependencies"]
    lines = PROJECT["dependencies"] * core + [line for extra in extras for line in optional[extra]]
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def bounds(requirements: dict[str, Requirement]) -> dict[str, str]:
    return {CONDA_NAMES.get(name, name): str(requirement.specifier) for name, requirement in requirements.items()}


def conda_bounds(file: str) -> dict[str, str]:
    """Return name -> bounds of a conda environment file, its pip section included, less Python, pip and the toolkit."""
    entries = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["dependencies"]
    pip_section = entries.pop()["pip"]
    assert pip_section.pop() == "--editable ."
    found = {canonicalize_name(entry.name): str(entry.specifier) for entry in map(Requirement, entries + pip_section)}
    assert found.pop("python") == str(Requirement(f"python{PROJECT['requires-python']}").specifier)
    return {name: bound for name, bound in found.items() if name not in {"pip"} | TOOLKIT}


def locked(file: str) -> dict[str, Requirement]:
    """Return name -> pin of a lock file, in which a package starts a line and its hashes and comments are indented."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line.removesuffix("\\")) for line in lines if line and not line.startswith((" ", "#"))]
    assert len({pin.name for pin in pins}) == len(pins), f"{file} pins a package twice"
    return {pin.name: pin for pin in pins}


def version(pin: Requirement) -> str:
    (specifier,) = pin.specifier
    assert specifier.operator == "==", f"{pin} is not a pin"
    return specifier.version


def test_conda_environment_names_the_same_dependencies_as_the_package():
    assert conda_bounds("environment.yml") == bounds(named("data", "paper", "test"))


def test_gpu_environment_adds_just_the_cuda_extra():
    assert conda_bounds("environment-gpu.yml") == bounds(named("data", "paper", "test", "cuda"))


def test_lock_pins_every_dependency_within_its_bounds():
    pins = locked("requirements.lock")
    for name, wanted in named("data", "paper", "test", "lint").items():
        assert version(pins[name]) in wanted.specifier, f"{pins[name]} is locked, {wanted} is asked for"


def test_every_locked_package_has_hashes_and_none_names_an_address():
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    packages = re.findall(r"^[a-z0-9].*?(?=^[a-z0-9]|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(packages) == len(locked("requirements.lock"))
    assert [package for package in packages if "--hash=sha256:" not in package] == []
    assert "://" not in text + (ROOT / "requirements-peers.lock").read_text(encoding="utf-8")


def test_pytorch_is_locked_apart_and_its_needs_agree_with_the_main_lock():
    main, peers = locked("requirements.lock"), locked("requirements-peers.lock")
    assert "torch" not in main
    assert str(peers["torch"]) == str(named("peers", core=False)["torch"])
    assert {n: version(p) for n, p in peers.items() if n in main} == {n: version(main[n]) for n in peers if n in main}


def test_installed_packages_are_the_locked_ones():
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("another environment than the one that make env makes")
    pins = [pin for pin in locked("requirements.lock").values() if pin.marker is None or pin.marker.evaluate()]
    assert {p.name: importlib.metadata.version(p.name) for p in pins} == {p.name: version(p) for p in pins}


def imported_packages(folder: Path) -> set[str]:
    """Return the top-level names that any module under `folder` imports, whether at its head or inside a function."""
    nodes = [node for path in folder.rglob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    absolute = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0}
    return {name.partition(".")[0] for name in plain | absolute}


def test_everything_the_package_imports_is_a_named_dependency():
    # The first five are seldom installed where this runs.
    top_level = {"pycuda": ["pycuda"], "nvmath": ["nvmath-python"], "cuda": ["cuda-bindings"], "mpi4py": ["mpi4py"], "av": ["av"]}
    top_level |= importlib.metadata.packages_distributions()
    allowed = set(map(canonicalize_name, named("paper", "cuda", "peers", "mpi", "video")))
    third_party = imported_packages(ROOT / "rnnopt") - sys.stdlib_module_names - {"rnnopt"}
    unnamed = {name for name in third_party if not allowed & set(map(canonicalize_name, top_level.get(name, [])))}
    assert unnamed == set()


def test_wheel_carries_every_file_of_the_package(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = map(zipfile.ZipFile, tmp_path.glob("*.whl"))
    packed = wheel.namelist()
    files = (path for path in (ROOT / "rnnopt").rglob("*") if path.is_file() and path.suffix != ".pyc")
    source = {path.relative_to(ROOT).as_posix() for path in files}
    assert any(name.endswith(".cu") for name in source)
    assert source == {name for name in packed if name.startswith("rnnopt/")}
    (entry_points,) = (wheel.read(name).decode() for name in packed if name.endswith("entry_points.txt"))
    assert "rnnopt = rnnopt.cli:main" in entry_points


def tracked_files() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_tracked_file_names_a_path_of_somebodys_machine():
    homes = re.compile(rb"(?<![\w.])/(home|Users|root)/\w+|" + re.escape(os.fsencode(ROOT)) + rb"\b")
    assert [path.relative_to(ROOT).as_posix() for path in tracked_files() if homes.search(path.read_bytes())] == []


def test_readme_names_only_commands_that_the_makefile_has():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    used = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert {"reproduce", "test"} <= used <= targets
