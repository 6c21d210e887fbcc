"""`make gpu`, rehearsed on the CPU: its parts, what it keeps when it is cut, and what it says of missing packages."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from benchmarks import gpu_parts, on_gpu
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


def test_measurements_are_kept_one_by_one_and_not_made_again(tmp_path):
    """As on a machine that has torch and little else; in processes of their own, as it is called there."""
    program = "import sys; sys.modules.update(tyro=None, pydantic=None, pooch=None, roma=None, lightning_fabric=None)\n"
    (tmp_path / "sitecustomize.py").write_text(program)
    command = [sys.executable, "-m", "benchmarks.on_gpu", "--device", "cpu", "--rehearse", "--out", str(tmp_path)]
    paths = os.pathsep.join([str(tmp_path), str(on_gpu.ROOT)])
    settings = {"cwd": on_gpu.ROOT, "env": {**os.environ, "PYTHONPATH": paths}, "capture_output": True, "text": True}
    done = subprocess.run([*command, "--parts", *on_gpu.SHARES], timeout=300, **settings)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "missing: tyro, pydantic, lightning_fabric, pooch, roma (" in done.stdout
    for part in ("tests", "paper"):
        assert f"== {part}: left out: it needs tyro, pydantic, lightning_fabric, pooch, roma\n" in done.stdout
    polar, steps, ddp = (read(tmp_path, part)["results"] for part in ("polar", "steps", "ddp"))
    assert not [name for results in (polar, steps, ddp) for name, result in results.items() if "failed" in result]
    assert polar["choice"]["16 × 32 × 32"]["eager"] in polar["choice"]["accurate enough"]
    assert {name.split(",")[0] for name in steps} == {"homnist", "torus"} and len(steps) >= 7
    assert all(0 < r["floor_milliseconds"] < r["milliseconds"] for r in steps.values() if "floor_milliseconds" in r)
    assert ddp["2 processes, the same batch"]["step"] > 0
    machine = read(tmp_path, "machine")
    assert machine["missing"] and machine["torch"]
    # cut in the middle: what is there stays, what did not end is not tried again
    content = read(tmp_path, "steps")
    kept, cut = list(content["results"])[:2]
    content["results"] = {kept: {"milliseconds": -1.0}, cut: {"failed": "it did not end in its time"}}
    (tmp_path / "steps.json").write_text(json.dumps(content))
    call = gpu_parts.Call("cpu", True, tmp_path / "steps.json", time.time() + 60)
    results = gpu_parts.Kept(call)
    results.measure(kept, lambda: pytest.fail("measured again"))
    results.measure("fails", lambda: 1 / 0)
    gpu_parts.Kept(gpu_parts.Call("cpu", True, call.file, time.time() - 1)).measure("late", lambda: 1)
    again = read(tmp_path, "steps")["results"]
    assert again[kept] == {"milliseconds": -1.0} and "ZeroDivisionError" in again["fails"]["failed"]
    assert "late" not in again


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
    (tmp_path / "paper" / "metrics.json").unlink()  # as if cut before its evaluation
    assert rehearse("paper") == 0
    assert [words[2] for words in calls] == ["run", "resume"]
    assert read(tmp_path, "paper")["last"]["phase"] == "head"


def test_results_of_the_tests(rehearse, tmp_path, monkeypatch):
    report = '<testsuites><testsuite><testcase classname="a" name="b"/><testcase classname="a" name="c">{}</testcase>'

    def child(words, seconds):
        assert words[:4] == ["-m", "pytest", "-m", "cuda"] and any(word.endswith("test_cuda.py") for word in words)
        path = next(word.partition("=")[2] for word in words if word.startswith("--junitxml="))
        with open(path, "w") as file:
            file.write(report.format(problem) + "</testsuite></testsuites>")
        return int(bool(problem))

    monkeypatch.setattr(on_gpu, "child", child)
    problem = ""
    assert rehearse("tests") == 0
    problem = '<failure message="not close"/>'
    assert rehearse("tests") == 1
    assert read(tmp_path, "tests")["problems"] == {"a.c": "not close"}


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


@pytest.mark.parametrize("name", ["homnist", "torus", "shapes", "pose"])
def test_steps_have_the_sizes_of_the_paper(name):
    preset, size = EXPERIMENTS.find(name).presets["paper"], gpu_parts.SIZES[name]
    assert (preset.training.batch_size, preset.multiplicity) == (size.batch, size.multiplicity)
    if name == "torus":
        assert (preset.size**2, 3 * preset.images) == (size.rank, gpu_parts.TORUS_CHANNELS)
    else:
        assert (preset.conv, preset.rank) == (size.conv, size.rank)
