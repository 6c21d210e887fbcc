"""Runs as jobs, by submitit's own processes on this machine in place of a cluster."""

import os
import signal
import subprocess
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import submitit
import torch
import yaml
from submitit.local import local

from niso.runs import cluster
from niso.training.log import read_log
from tests.forked import Popen

OPTIONS = "--size 4 --images 3 --pool 50 --batch-size 1 --evaluation-pairs 2 --steps 80 --accelerator cpu".split()


def wait_for(condition, jobs):
    for _ in range(12000):
        if value := condition():
            return value
        time.sleep(0.05)
    pytest.fail("\n".join(path.read_text()[-2000:] for path in jobs.glob("*.err")))


@pytest.mark.slow
def test_a_preempted_job_goes_on_where_it_was(niso, images, tmp_path, weights, monkeypatch, blank_png):
    """Preempted when it has saved, and to its end: not one bit differs from a run that was never interrupted."""

    class Undrawn(cluster.Resume):  # a class of a function is pickled with its code
        def __call__(self):
            from niso import report
            from niso.report import pictures

            report.save_pictures, pictures.as_png = lambda *_: None, lambda _: blank_png
            return super().__call__()

    submit = submitit.AutoExecutor.submit
    monkeypatch.setattr(submitit.AutoExecutor, "submit", lambda self, job: submit(self, Undrawn(Path(job.folder))))
    monkeypatch.setattr(subprocess, "Popen", Popen)
    started, start = [], local.start_controller
    monkeypatch.setattr(local, "start_controller", lambda **words: started.append(start(**words)) or started[-1])
    common, out = ["run", "torus", *OPTIONS, "--data-dir", images, "--seed", 3], tmp_path / "jobs"
    assert niso(*common, "--out", tmp_path / "whole").status == 0
    words = ["--checkpoint-seconds", 0, "--launcher", "local", "--job", "timeout_min=10", "--out", out]
    status, text, err = niso(*common, *words)
    assert status == 0, err
    assert text.startswith(f"seed 3: job {started[0].pid}\n") and "1 of 1 runs submitted" in text
    run, jobs = out / "seed3", out / "jobs"
    saved = run / "checkpoints" / "pretrain.safetensors"
    wait_for(saved.exists, jobs)
    (job,) = wait_for(lambda: children(started[0].pid), jobs)
    os.kill(job, signal.SIGTERM)  # as SLURM announces a preemption; the job has saved, and does not end
    wait_for(lambda: any("waiting to be put back" in path.read_text() for path in jobs.glob("*.err")), jobs)
    os.kill(job, signal.SIGUSR2)
    wait_for((run / "report.html").exists, jobs)
    assert started[0].wait(60) == 0
    printed = "".join(path.read_text() for path in jobs.glob("*.err"))
    assert "Caught signal SIGUSR2" in printed
    one, other = weights(tmp_path / "whole"), weights(run)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert [int(row["step"]) for row in read_log(run / "log.csv")][-1] == 80
    # finished runs are not submitted again
    status, text, _ = niso("resume", out, "--launcher", "local")
    assert status == 0 and text.startswith("0 of 1 runs submitted")


def children(process):
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_wrong_calls(refused, small, tmp_path, trained_sweep):
    out = tmp_path / "out"
    words = ["run", "torus", *small, "--out", out]
    assert "--job has no effect" in refused(*words, "--job", "timeout_min=3")
    assert "--parallel has no effect" in refused(*words, "--launcher", "local", "--seeds", 2, "--parallel", 2)
    assert "'fast' must be NAME=VALUE" in refused(*words, "--launcher", "local", "--job", "fast")
    assert "'=3' must be NAME=VALUE" in refused(*words, "--launcher", "local", "--job", "=3")
    assert "is not a value of YAML" in refused(*words, "--launcher", "local", "--job", "name=[")
    assert "nonsense" in refused(*words, "--launcher", "local", "--job", "nonsense=3")
    assert "srun" in refused(*words, "--launcher", "slurm")
    assert "--launcher train each run in one process" in refused(*words, "--launcher", "local", "--devices", 2)
    assert not out.exists()
    assert "--launcher has no effect" in refused("resume", trained_sweep / "seed4", "--launcher", "local")


def test_what_a_cluster_refuses_leaves_no_folder(refused, small, tmp_path, monkeypatch):
    @contextmanager
    def batch(self):
        yield
        raise submitit.core.utils.FailedJobError("sbatch: error: Invalid partition\n specified: fast")

    monkeypatch.setattr(submitit.AutoExecutor, "batch", batch)
    monkeypatch.setattr(submitit.AutoExecutor, "submit", lambda *_: None)
    words = ["run", "torus", *small, "--out", tmp_path / "out", "--launcher", "local", "--seeds", 2]
    assert "--launcher local: sbatch: error: Invalid partition specified: fast" in refused(*words)
    assert not (tmp_path / "out").exists()


def test_a_time_limit_is_what_was_asked_for(niso, small, tmp_path, monkeypatch):
    """What reaches submitit, without a cluster."""
    given = {}

    class Executor:
        def __init__(self, folder, cluster, **settings):
            given.update(cluster=cluster, settings=settings)

        def update_parameters(self, **parameters):
            given.update(parameters)

        def batch(self):
            return nullcontext()

        def submit(self, function):
            given.setdefault("folders", []).append(function.folder)
            return type("Job", (), {"job_id": f"7_{len(given['folders'])}"})

    monkeypatch.setattr("submitit.AutoExecutor", Executor)
    words = ["--launcher", "slurm", "--seeds", 2, "--job", "slurm_partition=gpu", "timeout_min=30", "gpus_per_node=1"]
    monkeypatch.chdir(tmp_path)
    status, text, _ = niso("run", "torus", *small, *words, "--out", "out")
    assert status == 0 and text.splitlines()[:2] == ["seed 0: job 7_1", "seed 1: job 7_2"]
    wanted = {"cluster": "slurm", "slurm_partition": "gpu", "timeout_min": 30, "gpus_per_node": 1, "name": "niso"}
    wanted["settings"] = {"slurm_max_num_timeout": cluster.TIMEOUTS}
    assert {name: given[name] for name in wanted} == wanted
    assert given["folders"] == [str(tmp_path / "out" / f"seed{seed}") for seed in (0, 1)]
    for folder in given["folders"]:
        assert yaml.safe_load(Path(folder, "config.yaml").read_text())["experiment"] == "torus"
    status, text, _ = niso("resume", "out", "--launcher", "slurm")
    assert status == 0 and "2 of 2 runs submitted" in text and given["folders"][2:] == given["folders"][:2]
