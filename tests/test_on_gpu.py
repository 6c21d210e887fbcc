"""`make gpu`, rehearsed on the CPU: its parts, what it keeps when it is cut, and what it says of missing packages."""

import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from benchmarks import gpu_parts, on_gpu, polar, steps
from niso.experiments import EXPERIMENTS

pytestmark = pytest.mark.slow


def read(folder, part):
    return json.loads((folder / f"{part}.json").read_text())


@pytest.fixture
def rehearse(tmp_path, monkeypatch):
    """Calls on_gpu in this process; its status."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    previous = signal.getsignal(signal.SIGTERM)

    def call(*parts, words=()):
        with pytest.raises(SystemExit) as stop:
            on_gpu.main(["--device", "cpu", "--rehearse", "--out", str(tmp_path), *words, "--parts", *parts])
        return stop.value.code

    yield call
    signal.signal(signal.SIGTERM, previous)


BARE = "tyro", "pydantic", "lightning_fabric", "pooch", "roma"
TOGETHER = """
import runpy, sys
import benchmarks.on_gpu  # needs no more than its parts
for part in "polar", "steps", "ddp":
    sys.argv[1:] = part, "cpu", "True", f"{FOLDER}/{part}.json", UNTIL
    runpy.run_module("benchmarks.gpu_parts", run_name="__main__", alter_sys=True)
"""


def test_measurements_are_kept_one_by_one_and_not_made_again(rehearse, tmp_path, monkeypatch, capsys):
    """As on a machine that has torch and little else; in a process of their own: one for all, as imports take long."""
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules.update(dict.fromkeys({BARE}))\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name in BARE:
        monkeypatch.setitem(sys.modules, name, None)
    own, asked = on_gpu.child, []

    def child(words, seconds):
        asked.append(words[:-1])
        program = f"FOLDER, UNTIL = {str(tmp_path)!r}, {words[-1]!r}\n{TOGETHER}"
        return own(["-c", program], 300) if len(asked) == 1 else 0

    monkeypatch.setattr(on_gpu, "child", child)
    assert rehearse(*on_gpu.SHARES) == 3
    parts = ("polar", "steps", "ddp")
    calls = [["-m", "benchmarks.gpu_parts", part, "cpu", "True", str(tmp_path / f"{part}.json")] for part in parts]
    assert asked == calls
    printed = capsys.readouterr().out
    assert "missing: tyro, pydantic, lightning_fabric, pooch, roma (" in printed
    for part in ("tests", "paper"):
        assert f"== {part}: left out: it needs tyro, pydantic, lightning_fabric, pooch, roma\n" in printed
    polar, steps, ddp = (read(tmp_path, part)["results"] for part in parts)
    together = {**polar, **steps, **ddp}
    assert not [name for name, result in together.items() if isinstance(result, dict) and "failed" in result]
    assert polar["choice"]["16 × 32 × 32"]["eager"] in polar["choice"]["accurate enough"]
    assert polar["16 × 32 × 32, svd, eager"]["milliseconds"] > 0 and polar["orthogonality at half the rank, svd"] < 1e-4
    for name in ("homnist", "torus", "shapes", "pose"):
        assert {f"{name}, {mode}" for mode in ("float32", "bf16")} <= steps.keys()
    assert "torus, bf16, step as CUDA graphs" in steps
    assert all(0 < r["floor_milliseconds"] < r["milliseconds"] for r in steps.values() if "floor_milliseconds" in r)
    assert ddp["2 processes, the same batch"]["step"] > 0
    machine = read(tmp_path, "machine")
    assert machine["missing"] and machine["torch"]


# Measurements that are cut, fail, or lose the GPU


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """The results of a part, as a process finds them that has some seconds left."""

    def kept(seconds=600.0, rehearse=True, commit="f67af1c6552e", until=None):
        monkeypatch.setattr(gpu_parts, "machine", lambda device: {"commit": commit})
        end = time.time() + seconds if until is None else until
        return gpu_parts.Kept(gpu_parts.Call("cpu", rehearse, tmp_path / "part.json", end))

    return kept


def test_what_is_there_is_not_measured_again_nor_what_failed(keep, tmp_path):
    kept = keep()
    kept.measure("fine", lambda: {"milliseconds": -1.0})
    kept.measure("fails", lambda: 1 / 0)
    kept = keep()
    for name in ("fine", "fails"):
        kept.measure(name, lambda: pytest.fail("measured again"))
    kept.measure_again()
    results = read(tmp_path, "part")["results"]
    assert results["fine"] == {"milliseconds": -1.0} and "ZeroDivisionError" in results["fails"]["failed"]


def test_nothing_begins_where_little_time_is_left(keep):
    kept = keep(gpu_parts.LEAST - 1)
    kept.measure("late", lambda: 1)
    assert kept.results == {}


@pytest.mark.parametrize("hangs", [False, True])
def test_compilations_side_by_side_end_by_their_time_and_may_fail(hangs, tmp_path, monkeypatch):
    program, called = tmp_path / "python", tmp_path / "called"
    program.write_text(f'#!/bin/sh\necho $$ "$@" >> {called}\n' + ("exec sleep 60\n" if hangs else "exit 1\n"))
    program.chmod(0o755)
    monkeypatch.setattr(gpu_parts.sys, "executable", str(program))
    monkeypatch.setattr(gpu_parts, "AHEAD", 2.0 if hangs else 60.0)
    began = time.monotonic()
    gpu_parts.compile_ahead(gpu_parts.Call("cuda", False, tmp_path, time.time() + 600), ["torus", "pose"])
    assert time.monotonic() - began < 30
    numbers, words = zip(*(line.split(maxsplit=1) for line in sorted(called.read_text().splitlines())), strict=True)
    assert {line.removeprefix("-m benchmarks.gpu_parts compile cuda ") for line in words} == {"torus", "pose"}
    for number in numbers:
        with pytest.raises(ProcessLookupError):
            os.kill(int(number), 0)


class Killed(BaseException):
    """Stands for the end of the process."""


def kill():
    raise Killed


@pytest.mark.parametrize(("seconds", "times"), [(30, 2), (600, 1)])
def test_what_the_clock_cut_is_measured_once_more_after_all_else(keep, seconds, times):
    """What hangs is cut whatever its time, and must not be tried for ever."""
    tried = []

    def hang():
        tried.append("hangs")
        kill()

    for _ in range(4):
        kept = keep(seconds)
        try:
            kept.measure("hangs", hang)
            kept.measure("other", lambda: tried.append("other") or 1)
            kept.measure_again()
        except Killed:
            continue
    assert tried == ["hangs", "other", "hangs"][: times + 1]
    failed = keep().results["hangs"]
    assert "did not end" in failed["failed"] and seconds < failed["seconds"] < seconds + on_gpu.GRACE


def test_a_measurement_that_was_cut_may_succeed(keep):
    with pytest.raises(Killed):
        keep(30).measure("slow", kill)
    kept = keep()
    kept.measure("slow", lambda: 1.5)
    kept.measure_again()
    assert keep().results == {"slow": 1.5}


class AcceleratorError(RuntimeError):
    """As that of torch, for versions without it."""


@pytest.mark.parametrize(
    "error",
    [
        getattr(torch, "AcceleratorError", AcceleratorError)("an illegal memory access was encountered"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
    ],
    ids=["AcceleratorError", "RuntimeError"],
)
def test_a_process_that_loses_its_gpu_measures_nothing_more(keep, error):
    def lose():
        raise error

    with pytest.raises(gpu_parts.LostError):
        keep().measure("loses", lose)
    kept = keep()
    kept.measure("loses", lose)
    kept.measure("other", lambda: 1)
    with pytest.raises(gpu_parts.LostError):  # that it was not the fault of another
        kept.measure_again()
    kept = keep()
    kept.measure("loses", lose)
    kept.measure_again()
    assert kept.results["other"] == 1 and "illegal memory access" in kept.results["loses"]["failed"]


def test_a_new_process_goes_on_after_one_that_lost_its_gpu(rehearse, monkeypatch):
    statuses = [on_gpu.LOST, on_gpu.LOST, 0]
    monkeypatch.setattr(on_gpu, "child", lambda words, seconds: statuses.pop(0))
    assert rehearse("polar") == 0 and not statuses

    def lose(*_):
        raise gpu_parts.LostError

    monkeypatch.setitem(gpu_parts.PARTS, "polar", lose)
    monkeypatch.setattr(os, "_exit", lambda status: pytest.exit(str(status)))
    with pytest.raises(pytest.exit.Exception, match=str(on_gpu.LOST)):
        gpu_parts.main(["polar", "cpu", "True", "none.json", str(time.time() + 60)])


def test_results_of_a_rehearsal_are_not_the_real_ones(keep):
    keep(rehearse=True).measure("tiny", lambda: 1)
    assert keep(rehearse=False).results == {}


@pytest.mark.parametrize("commit", [None, "f67af1c6552e+changes"])
def test_results_of_code_that_is_not_known_are_of_one_call(keep, commit):
    until = time.time() + 600
    keep(commit=commit, until=until).measure("fine", lambda: 1)
    assert keep(commit=commit, until=until).results == {"fine": 1}
    assert keep(commit=commit).results == {}


def test_the_choice_is_of_what_was_measured(keep, monkeypatch):
    """Accuracy and backends that failed, or were cut, take nothing from the others."""

    def fails(*_, **__):
        raise RuntimeError("no such driver")

    timings = iter([fails, fails, *[lambda *_: 2.0] * 2])
    monkeypatch.setattr(gpu_parts, "milliseconds", lambda *words: next(timings, fails)(*words))
    kept = keep()
    gpu_parts.polars(kept.call, kept)
    assert kept.results["choice"]["16 × 32 × 32"] == {"eager": "products", "graph": None}
    assert kept.results["choice"]["1 × 100 × 32"] == {"eager": None, "graph": None}
    for broken in ({"failed": "cut"}, None, [{"condition": 1e3, "error": {"svd": None}}]):
        results = {name: result for name, result in kept.results.items() if name != "accuracy"}
        found = gpu_parts.choice(results | ({"accuracy": broken} if broken else {}), gpu_parts.SHAPES)
        assert found == {"left out": "nothing is known of the accuracy"}


def test_series_of_slow_calls_are_short(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(gpu_parts.time, "perf_counter", lambda: now[0])

    def slow():
        calls.append(1)
        now[0] += 0.9

    assert gpu_parts.milliseconds(slow, "cpu", 30) == pytest.approx(900)
    assert len(calls) <= 3 + 3 * 2 and now[0] < 5 * gpu_parts.SERIES

    def fast():
        calls.append(1)
        now[0] += 1e-3

    calls.clear()
    assert gpu_parts.milliseconds(fast, "cpu", 30) == pytest.approx(1) and len(calls) == 120


def test_orthogonality_where_matrices_lack_rank():
    assert polar.orthogonality(polar.CALLS["svd"], "cpu", 16) < 1e-5
    assert polar.orthogonality(polar.CALLS["products"], "cpu", 16) < 1e-5
    assert polar.orthogonality(lambda m: m / torch.linalg.matrix_norm(m, 2, keepdim=True), "cpu", 16) > 0.5


# Runs and tests


def test_the_paper_run_is_resumed(rehearse, tmp_path, niso, monkeypatch):
    calls = []

    def child(words, seconds):
        calls.append(list(words))
        status, _, err = niso(*words[2:])
        assert status == 0, err
        return status

    monkeypatch.setattr(on_gpu, "child", child)
    assert rehearse("paper") == 0
    assert read(tmp_path, "paper")["metrics"]["steps"] == 4
    assert "method: niso\n" in (tmp_path / "paper-rehearsal" / "config.yaml").read_text()
    (tmp_path / "paper-rehearsal" / "metrics.json").unlink()  # as if cut before its evaluation
    assert rehearse("paper") == 0
    assert [words[2] for words in calls] == ["run", "resume"]
    assert read(tmp_path, "paper")["last"]["phase"] == "head"


def test_results_of_the_tests(rehearse, tmp_path, monkeypatch):
    lines = [
        {"test": "a", "outcome": "begun"},
        {"test": "a", "outcome": "passed", "seconds": 2.0, "message": ""},
        {"test": "b", "outcome": "begun"},
        {"test": "b", "outcome": "skipped", "seconds": 0.0, "message": ""},
    ]

    def child(words, seconds, end):
        assert words[:4] == ["-m", "pytest", "-m", "cuda"] and any(word.endswith("test_cuda.py") for word in words)
        path = next(word.partition("=")[2] for word in words if word.startswith("--outcomes="))
        with open(path, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
            file.write('{"test": "c", "outc')  # its writer was killed
        return status

    monkeypatch.setattr(on_gpu, "child", child)
    status = 0
    assert rehearse("tests") == 0
    results = read(tmp_path, "tests")
    assert (results["tests"], results["skipped"], results["wrong"], results["unfinished"]) == (2, 1, 0, 0)
    assert results["longest"] == {"a": 2.0, "b": 0.0}
    lines += [{"test": "a", "outcome": "failed", "seconds": 0.1, "message": "its teardown"}]
    status = 1
    assert rehearse("tests") == 1
    assert read(tmp_path, "tests")["problems"] == {"a": "its teardown"}
    lines.clear()
    assert rehearse("tests") == 1
    assert read(tmp_path, "tests")["failed"] == "pytest ran no test"


@pytest.mark.parametrize("workers", [0, 2])
def test_tests_that_are_cut_leave_their_results(workers, tmp_path, monkeypatch):
    folder, begun = tmp_path / "tests", tmp_path / "begun"
    folder.mkdir()
    (folder / "conftest.py").write_text("def pytest_configure(config): config.addinivalue_line('markers', 'cuda')\n")
    (folder / "test_both.py").write_text(
        "import pathlib, pytest, time\n"
        "pytestmark = pytest.mark.cuda\n"
        "def test_short(): pass\n"
        "def test_wrong(): assert 0, 'so'\n"
        f"def test_long(): pathlib.Path({str(begun)!r}).touch(); time.sleep(60)\n"
    )
    wait = subprocess.Popen.wait

    def until_begun(process, timeout=None):
        if begun.exists():
            return wait(process, timeout)
        while not begun.exists() and process.poll() is None:
            time.sleep(0.05)
        time.sleep(0.5)  # a worker's reports are on their way
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", until_begun)
    monkeypatch.setenv("PYTHONPATH", str(on_gpu.ROOT))
    monkeypatch.setattr(on_gpu, "ROOT", tmp_path)
    monkeypatch.setattr(on_gpu, "WORKERS", workers)
    call = on_gpu.Call("cuda", False, ("tests",), tmp_path, tmp_path / "paper", None, time.time() + 300)
    fine, said = on_gpu.tests(call, tmp_path / "tests.json")
    results = read(tmp_path, "tests")
    assert not fine and said == "3 tests, 0 skipped, 1 wrong, 1 unfinished, cut by its time"
    assert list(results["problems"].values()) == ["AssertionError: so\nassert 0"] and results["status"] is None
    assert [name.rpartition("::")[2] for name in results["cut"]] == ["test_long"]


def test_a_part_whose_time_is_over_saves_and_ends_with_all_that_it_started(tmp_path):
    program = (
        "import signal, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(tmp_path / 'saved')!r}, 'w'), sys.exit(143)))\n"
        "time.sleep(60)\n"
    )
    began = time.monotonic()
    assert on_gpu.child(["-c", program], 3.0) is None
    assert time.monotonic() - began < 30 and (tmp_path / "saved").exists()
    child = int((tmp_path / "child").read_text())
    with pytest.raises(ProcessLookupError):
        for _ in range(100):  # until it is reaped
            os.kill(child, 0)
            time.sleep(0.05)


def test_wrong_calls(rehearse, tmp_path):
    (tmp_path / "none").mkdir()
    assert "holds no wheels" in rehearse("polar", words=["--wheels", str(tmp_path / "none")])
    assert rehearse("paper", words=["--minutes", "0"]) == 3  # no time is left


@pytest.mark.parametrize("words", [[], ["--out", "folder"]], ids=["default", "given"])
def test_a_rehearsal_has_folders_of_its_own(words, monkeypatch, tmp_path):
    """Else the real call would resume the tiny run, and report it as the paper's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    calls = []
    monkeypatch.setattr(on_gpu, "run", lambda call: calls.append(call) or 0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for more in ([], ["--rehearse"]):
        with pytest.raises(SystemExit):
            on_gpu.main(["--device", "cpu", *words, *more])
    real, rehearsal = calls
    assert real.run != rehearsal.run and {real.run.parent, rehearsal.run.parent} == {real.out, rehearsal.out}
    assert (real.out == rehearsal.out) == bool(words)
    assert words or rehearsal.out == tmp_path / "runs" / "on-gpu-rehearsal"


def test_tests_need_what_checks_them(monkeypatch, tmp_path):
    call = on_gpu.Call("cpu", True, ("tests",), tmp_path, tmp_path, None, math.inf)
    monkeypatch.setitem(sys.modules, "beartype", None)
    assert on_gpu.left_out("tests", call) == "it needs beartype"
    assert on_gpu.left_out("polar", call) == ""


@pytest.mark.parametrize("name", ["homnist", "torus", "shapes", "pose"])
def test_steps_have_the_sizes_of_the_paper(name):
    preset, size = EXPERIMENTS.find(name).presets["paper"], gpu_parts.SIZES[name]
    assert (preset.training.batch_size, preset.multiplicity) == (size.batch, size.multiplicity)
    if name == "torus":
        assert (preset.size**2, 3 * preset.images) == (size.rank, steps.TORUS_CHANNELS)
    else:
        assert (preset.conv, preset.rank) == (size.conv, size.rank)
        assert (1, preset.conv.points, preset.rank) in gpu_parts.SHAPES  # Φ
