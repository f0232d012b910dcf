"""The replay protocol under ThreadSanitizer: what orders operations is what the program says, not luck."""

from pathlib import Path

import pytest

from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.host import compiler, program
from rnnopt.devices.host.checked import build

HARNESS = Path(__file__).with_name("replay_races.cpp").read_text(encoding="utf-8")
EXECUTOR, GEMM = ((program.FOLDER / name).read_text(encoding="utf-8") for name in ("executor.cpp", "gemm.h"))
RACE = 66  # ThreadSanitizer's exit status


def replay(seed, streams, workers, dropped=0, executor=EXECUTOR):
    try:
        prefix = build.runner("races")[:-1]
    except DeviceUnavailable as missing:
        pytest.skip(str(missing))
    command = compiler.build("replay_races", HARNESS, {"executor.cpp": executor, "gemm.h": GEMM}, build.flags("races"))
    return build.execute([*prefix, str(command), *map(str, (seed, streams, workers, dropped))], timeout=100)


@pytest.mark.parametrize(("streams", "workers"), [(1, 1), (1, 3), (2, 2), (5, 3), (8, 2), (12, 5)])
def test_random_programs_run_without_a_race_and_right(streams, workers):
    for seed in range(2):
        answer = replay(seed, streams, workers)
        assert (answer.returncode, answer.stdout) == (0, "right\n"), answer.stderr


def test_a_dependency_that_is_missing_is_a_race():
    """Planted: each seventh operation waits for nothing."""
    assert RACE in {replay(seed, 5, 3, dropped=7).returncode for seed in range(3)}


@pytest.mark.parametrize(("right", "wrong"), [
    ("stream.busy.store(false, std::memory_order_release)", "stream.busy.store(false, std::memory_order_relaxed)"),
    ("stream.busy.exchange(true, std::memory_order_acquire)", "stream.busy.load()"),
], ids=["a stream let go without what was done on it", "a stream claimed by looking only"])
def test_a_protocol_that_orders_too_little_is_caught(right, wrong):
    """Planted in the executor itself."""
    assert EXECUTOR.count(right) == 1
    answers = [replay(seed, 3, 3, executor=EXECUTOR.replace(right, wrong)) for seed in range(3)]
    assert RACE in {answer.returncode for answer in answers}
