"""Runs side by side, in processes of their own: equal to runs in one process, interrupted, failing, shown."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

from niso.config import Hardware
from niso.errors import InputError, Interrupted
from niso.experiments import EXPERIMENTS
from niso.experiments.settings import Settings
from niso.files.paths import in_shell
from niso.runs import parallel
from niso.runs.parallel import Job, run_side_by_side
from niso.training.environment import called
from niso.training.run import Run
from tests.forked import Popen

TORUS = ("run", "torus")
DIGITS = (
    "run homnist --conv.channels 4 --conv.blocks 1 --rank 8 --steps 3 --head.steps 3 --head.batch-size 4 "
    "--test-digits 5 --test-copies 1 --evaluation-pairs 3 --validation 0.01 --vector-neurons.channels 8"
).split()
STANDS_IN = """
import json, os, pathlib, signal, sys, time
run = pathlib.Path(sys.argv[1])
behaviour = (run.parent / run.name.replace("seed", "behaviour")).read_text()
if behaviour == "refuse":
    print("niso: there is no data")
    sys.exit(2)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: sys.exit(print(f"niso: interrupted by {number}") or 128 + number))
with open(run / "log.csv", "a") as log:
    log.write("phase,step,loss,seconds\\npretrain,1,0.5,0.1\\npretrain,3,0.25,0.2\\n")
if behaviour == "fail":
    print("a library says something\\nniso: it went wrong")
    sys.exit(2)
if behaviour == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if behaviour == "silent":
    sys.exit(1)
if behaviour == "crash":
    print("niso: warning: of a library")
    sys.exit("Traceback")
if behaviour == "wait":
    time.sleep(60)
metrics = {"threads": int(os.environ["OMP_NUM_THREADS"]), "leads": int(os.getsid(0) == os.getpid())}
(run / "checkpoints").mkdir(exist_ok=True)
(run / "checkpoints" / "pretrain.safetensors").touch()
(run / "metrics.json").write_text(json.dumps(metrics))
(run / "report.html").touch()
"""
"""What stands in for `niso resume`: quick, and it does what a file beside the run says."""


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """Makes a job for each behaviour."""
    program = tmp_path / "stands_in.py"
    program.write_text(STANDS_IN)
    monkeypatch.setattr(parallel, "COMMAND", (sys.executable, str(program)))
    monkeypatch.setattr(sys, "argv", ["niso", "run", "torus", "--seeds", "3"])
    settings = Settings("torus", "quick", SimpleNamespace(steps=3), hardware=Hardware(threads=3))

    def dump(self):
        training = {"steps": self.config.steps}
        return {"experiment": self.experiment, "seed": self.seed, "config": {"training": training}}

    monkeypatch.setattr(Settings, "dump", dump)

    def make(*behaviours):
        for seed, behaviour in enumerate(behaviours):
            (tmp_path / f"behaviour{seed}").write_text(behaviour)
        return [Job(f"seed {s}", replace(settings, seed=s), tmp_path / f"seed{s}") for s in range(len(behaviours))]

    return make


@pytest.fixture(autouse=True)
def ended(monkeypatch):
    """Whatever happens, no process that a test began outlives it."""
    begun = []

    def begin(*words, **options):
        begun.append(subprocess.Popen(*words, **options))
        return begun[-1]

    monkeypatch.setattr(parallel, "Popen", begin)
    yield
    for process in begun:
        if process.poll() is None:
            process.kill()
            process.wait()


class Unresponsive(Exception):
    pass


@pytest.fixture
def limited(monkeypatch):
    """Runs side by side that do not end within a minute are an error, and their processes are killed."""
    begun, wait = time.monotonic(), parallel.wait

    def impatient(*words, **options):
        if time.monotonic() - begun > 60:
            raise Unresponsive
        return wait(*words, **options)

    monkeypatch.setattr(parallel, "wait", impatient)


def test_the_folder_of_a_run_may_begin_with_a_dash(refused):
    assert "-x/seed0 is not a run folder" in refused(*parallel.COMMAND[3:], "-x/seed0")
    assert in_shell(Path("-x/seed0")) == "./-x/seed0"


def test_all_runs_are_trained_and_those_that_are_finished_are_left(jobs, tmp_path, capfd, monkeypatch):
    with called(["run", "torus", "--seeds", "3"]):
        assert run_side_by_side(jobs("finish", "finish", "finish"), 2, tmp_path) == []
    runs = [Run.open(tmp_path / f"seed{seed}") for seed in range(3)]
    assert all(run.finished for run in runs)
    assert runs[0].metrics == {"threads": 3, "leads": 1}  # a session of its own: Ctrl-C of a terminal spares it
    assert runs[1].settings["seed"] == 1 and runs[1].facts == {"command": "niso run torus --seeds 3"}
    err = capfd.readouterr().err
    assert re.findall(r"^seed 2: (\w+)", err, re.MULTILINE)[-1] == "finished" and ": finished, 3 of 3" in err
    stamps = [(run.path / "log.csv").stat().st_mtime_ns for run in runs]
    with monkeypatch.context() as late:  # a signal that comes when all is done
        late.setattr(parallel, "_signals", lambda: nullcontext([signal.SIGTERM]))
        assert run_side_by_side(jobs("fail", "fail", "fail"), 2, tmp_path) == []
    assert [(run.path / "log.csv").stat().st_mtime_ns for run in runs] == stamps
    (tmp_path / "seed1" / "report.html").unlink()  # as where a kill prevented it
    assert run_side_by_side(jobs("fail", "finish", "fail"), 2, tmp_path) == []
    assert (tmp_path / "seed1" / "report.html").exists()
    (tmp_path / "seed1" / "checkpoints" / "pretrain.safetensors").unlink()  # trained again, as by `niso resume` alone
    assert run_side_by_side(jobs("fail", "finish", "fail"), 2, tmp_path) == []
    assert (tmp_path / "seed1" / "checkpoints" / "pretrain.safetensors").exists()


def test_one_that_fails_is_named_and_does_not_stop_the_others(jobs, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("COLUMNS", "150")
    lines = run_side_by_side(jobs("fail", "finish", "crash", "kill", "silent"), 2, tmp_path)
    assert lines == [
        "seed 0: it went wrong",
        f"seed 2: Traceback (see {tmp_path / 'seed2' / 'output.log'})",
        f"seed 3: ended by signal 9 (Killed): `niso resume {tmp_path / 'seed3'}` goes on",
        f"seed 4: no output (see {tmp_path / 'seed4' / 'output.log'})",
    ]
    assert Run.open(tmp_path / "seed1").finished and not Run.open(tmp_path / "seed0").finished
    table = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", capfd.readouterr().err)
    for line in (
        r"seed0 +pretrain .* 3/3 .*20\.0 steps/s .*loss 0\.25 failed",
        r"seed1 .* finished",
        r"seed2 .* failed",
    ):
        assert re.search(line, table), table
    again = run_side_by_side(jobs("crash", "fail", "finish"), 2, tmp_path)
    assert again == [f"seed 0: Traceback (see {tmp_path / 'seed0' / 'output.log'})"]  # not what was said before
    assert (tmp_path / "seed0" / "output.log").read_text().splitlines()[1::2] == ["niso: it went wrong", "Traceback"]


def test_the_table_goes_by_the_settings_of_a_run_that_was_begun(jobs):
    (job,) = jobs("wait")
    run = parallel.create(job)
    (run.path / "log.csv").write_text("phase,step,loss,seconds\npretrain,1,0.5,0.1\n")
    task = parallel._Task(job._replace(settings=replace(job.settings, config=SimpleNamespace(steps=9))))
    task.look()
    assert (task.phase, task.step, task.steps) == ("pretrain", 1, 3)


def test_a_long_table_shows_the_runs_that_are_worked_on_and_a_line_each_half_minute(jobs, capfd, monkeypatch):
    monkeypatch.setenv("LINES", "3")
    monkeypatch.setattr(parallel, "time", SimpleNamespace(monotonic=lambda: times[0]))
    times = [0.0, 1.0, 2.0, 32.0]
    tasks = [parallel._Task(job) for job in jobs("wait", "wait")]
    run = parallel.create(tasks[1].job)
    seconds = [0, *range(50, 61)]  # slow at first; ten steps later it is a step in each second
    rows = "".join(f"pretrain,{step},0.5,{time}\n" for step, time in enumerate(seconds, start=1))
    (run.path / "log.csv").write_text(f"phase,step,loss,seconds\n{rows}")
    table = parallel._Table(tasks)
    tasks[1].state = "working"
    while times.pop(0) < 32:
        table.show()
    assert [row.visible for row in table.progress.tasks] == [False, True]
    assert capfd.readouterr().err == 2 * "seed 1: working, pretrain 12/3, 1.0 steps/s, loss 0.5\n"


def test_a_fault_of_its_own_ends_the_processes(jobs, tmp_path, monkeypatch):
    wait = parallel.wait

    def faulty(*words, **options):
        if (tmp_path / "seed0" / "log.csv").exists():
            raise Unresponsive
        return wait(*words, **options)

    monkeypatch.setattr(parallel, "wait", faulty)
    with pytest.raises(Unresponsive):
        run_side_by_side(jobs("wait"), 1, tmp_path)
    assert "niso: interrupted" in (tmp_path / "seed0" / "output.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.usefixtures("heeded", "limited")
def test_a_signal_is_passed_on_and_no_more_runs_begin(jobs, tmp_path, number, capfd, when, monkeypatch):
    interrupt = parallel._Task.interrupt

    def slowly(task, number):
        interrupt(task, number)
        if task.process:
            task.process.wait()
            time.sleep(0.1)  # the next would begin here

    monkeypatch.setattr(parallel._Task, "interrupt", slowly)
    logs = [tmp_path / f"seed{seed}" / "log.csv" for seed in (0, 1)]
    when(logs, lambda: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted, match=r"0 of 3 runs are finished; `niso resume .*` continues") as stop:
        run_side_by_side(jobs("wait", "wait", "finish"), 2, tmp_path)
    assert stop.value.number == number and not (tmp_path / "seed2").exists()
    states = re.findall(r"^seed 1: (\w+)", capfd.readouterr().err, re.MULTILINE)
    assert {*states} <= {"working", "saving", "interrupted"} and states[-1] == "interrupted"
    reached = signal.SIGINT if number == signal.SIGINT else signal.SIGTERM
    assert f"niso: interrupted by {int(reached)}" in (tmp_path / "seed1" / "output.log").read_text()
    assert run_side_by_side(jobs("finish", "finish", "finish"), 2, tmp_path) == []


@pytest.mark.parametrize(("status", "state"), [(0, "finished"), (143, "interrupted"), (2, "failed")])
def test_a_signal_that_comes_while_a_process_starts_reaches_it(jobs, monkeypatch, status, state):
    (job,) = jobs("finish")
    task, reached = parallel._Task(job), []

    def begin(words, stdout, **_):
        task.interrupted = True
        stdout.write(b"niso: there is no data\n")
        return SimpleNamespace(poll=lambda: None, terminate=lambda: reached.append(True), wait=lambda: status)

    monkeypatch.setattr(parallel, "Popen", begin)
    task.work()
    assert reached == [True] and task.state == state
    assert job.folder.exists() == (status != 2)  # what was refused is not kept to be resumed


@pytest.mark.usefixtures("heeded")
def test_what_a_library_handles_in_c_is_left_to_it_and_ctrl_c_heeded_behind_an_ampersand(monkeypatch):
    getsignal = signal.getsignal
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    before = getsignal(signal.SIGTERM), getsignal(signal.SIGHUP)
    monkeypatch.setattr(signal, "getsignal", lambda n: None if n == signal.SIGTERM else getsignal(n))
    with parallel._signals() as received:
        assert getsignal(signal.SIGTERM) is before[0]
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGINT)
    assert received == [signal.SIGHUP, signal.SIGINT] and getsignal(signal.SIGINT) is signal.SIG_IGN
    assert (getsignal(signal.SIGTERM), getsignal(signal.SIGHUP)) == before


def test_where_nothing_can_begin_the_reason_is_given_once_and_nothing_is_left(jobs, tmp_path):
    with pytest.raises(InputError, match=r"^there is no data$"):
        run_side_by_side(jobs("refuse", "refuse"), 2, tmp_path)
    assert not (tmp_path / "seed0").exists() and not (tmp_path / "seed1").exists()
    (tmp_path / "seed0").write_text("a file")
    lines = run_side_by_side(jobs("finish", "finish", "refuse"), 2, tmp_path)
    assert lines == [
        f"seed 0: {tmp_path / 'seed0'} exists and is not an empty folder: choose another --out",
        "seed 2: there is no data",
    ]
    assert not (tmp_path / "seed2").exists()
    (tmp_path / "seed0").unlink()
    (first, second) = jobs("refuse", "finish")
    parallel.create(first)  # by a command before
    assert run_side_by_side([first, second], 2, tmp_path) == ["seed 0: there is no data"]
    assert (tmp_path / "seed0" / "config.yaml").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("heeded")
def test_real_processes_interrupted_and_resumed_equal_a_run_by_itself(
    niso, small, tmp_path, weights, blank_processes, when, request, monkeypatch
):
    monkeypatch.setattr(subprocess, "Popen", Popen)
    out, common = tmp_path / "sweep", [*TORUS, *small, "--steps", 60, "--accelerator", "cpu"]
    when([out / "seed1" / "checkpoints" / "pretrain.safetensors"], lambda: os.kill(os.getpid(), signal.SIGTERM))
    status, printed, err = niso(*common, "--seeds", 2, "--parallel", 2, "--checkpoint-seconds", 0, "--out", out)
    assert (status, printed) == (143, "")
    assert re.search(rf"niso: interrupted, [01] of 2 runs are finished; `niso resume {out}` continues", err)
    assert "`niso resume" in (out / "seed1" / "output.log").read_text()
    for run in ("seed0", "seed1"):  # no file at each step anymore
        settings = Run(out / run).settings
        settings["hardware"]["checkpoint_seconds"] = 60.0
        (out / run / "config.yaml").write_text(yaml.safe_dump(settings))
    request.getfixturevalue("threaded")
    status, printed, _ = niso("resume", out)
    assert status == 0 and printed.startswith("quick · niso, seeds 0, 1\n")
    assert niso(*common, "--seed", 1, "--out", tmp_path / "alone").status == 0
    alone, one = weights(tmp_path / "alone"), weights(out / "seed1")
    assert alone.keys() == one.keys() and all(torch.equal(alone[name], one[name]) for name in alone)
    metrics = [Run.open(folder).metrics for folder in (tmp_path / "alone", out / "seed1")]
    times = {"seconds": 0, "seconds_wall": 0, "seconds_pretrain": 0}
    assert metrics[0] | times == metrics[1] | times


@pytest.mark.slow
def test_methods_in_one_sweep(niso, tmp_path, monkeypatch):
    own = {"niso": {"conv": {"latent_channels": 64}}}
    monkeypatch.setitem(EXPERIMENTS.find("homnist").method_settings, "quick", own)
    out = tmp_path / "sweep"
    options = ["--methods", "niso", "autoencoder", "--batch-size", 4, "--seed", 1, "--out", out]
    status, printed, err = niso(*DIGITS, *options)
    assert status == 0, err
    names = ["autoencoder-seed1", "niso-seed1"]
    assert sorted(path.name for path in out.iterdir()) == [*names, "report.html", "sweep.yaml"]
    assert yaml.safe_load((out / "sweep.yaml").read_text())["methods"] == ["niso", "autoencoder"]
    assert [Run(out / name).settings["method"] for name in names] == ["autoencoder", "niso"]
    assert [Run(out / name).settings["config"]["conv"]["latent_channels"] for name in names] == [32, 64]
    assert "niso, seed 1 is finished, 1 of 2" in err and all(method in printed for method in options[1:3])
    report = (out / "report.html").read_bytes()
    metrics = json.loads((out / "niso-seed1" / "metrics.json").read_text())
    shutil.rmtree(out / "niso-seed1")
    status, _, err = niso("resume", out)
    assert status == 0, err
    again = json.loads((out / "niso-seed1" / "metrics.json").read_text())
    assert Run(out / "niso-seed1").settings["config"]["conv"]["latent_channels"] == 64
    assert all(again[name] == metrics[name] for name in metrics if not name.startswith("seconds"))
    assert niso("report", out).status == 0
    assert len((out / "report.html").read_bytes()) == pytest.approx(len(report), rel=0.1)
    assert niso("record", out, "--to", tmp_path / "results").status == 0
    assert len(list((tmp_path / "results").glob("*.json"))) == 2


def test_a_method_that_cannot_begin_does_not_stop_the_others(niso, tmp_path):
    out = tmp_path / "sweep"
    options = ["--methods", "niso", "niso-group", "--batch-size", 6, "--out", out]
    status, _, err = niso(*DIGITS, *options)
    assert status == 2
    assert "niso: 1 of 2 runs failed: niso-group, seed 0: a batch of 6 pairs cannot be cut into groups" in err
    assert (out / "niso-seed0" / "metrics.json").is_file() and not (out / "niso-group-seed0").exists()


@pytest.mark.parametrize("methods", [["niiso"], [], "niso", [["niso"]]])
def test_damaged_methods(refused, trained_sweep, tmp_path, methods):
    content = yaml.safe_load((trained_sweep / "sweep.yaml").read_text())
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump({**content, "methods": methods}))
    assert "sweep.yaml is damaged: methods must be among niso" in refused("resume", tmp_path)


@pytest.mark.parametrize("own", ["niso", {"niso": "rank"}, {"niso": {"rnak": 3}}])
def test_damaged_settings_of_a_method(refused, trained_sweep, tmp_path, own):
    content = yaml.safe_load((trained_sweep / "sweep.yaml").read_text())
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump({**content, "own": own}))
    assert "sweep.yaml" in refused("resume", tmp_path)


def test_a_sweep_from_before_there_were_methods(niso, trained_sweep, tmp_path):
    out = shutil.copytree(trained_sweep, tmp_path / "sweep")
    content = yaml.safe_load((out / "sweep.yaml").read_text())
    assert content.pop("methods") == ["niso"]
    (out / "sweep.yaml").write_text(yaml.safe_dump(content))
    assert niso("resume", out).status == 0


def test_the_default_folder_names_the_methods(tmp_path):
    from niso.cli.run import parse_run

    names = [
        parse_run(["homnist", "--methods", *words, "--seeds", "2"]).out.name
        for words in (["niso"], ["nft", "niso"], ["all"])
    ]
    assert [name.split("-", 2)[2] for name in names] == ["niso-seeds0-1", "nft+niso-seeds0-1", "all-seeds0-1"]
