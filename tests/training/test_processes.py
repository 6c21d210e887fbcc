"""What processes agree on, tried in two of them; runs of the command line are in tests/test_processes.py."""

import json
import signal
import sys
import time
from contextlib import nullcontext
from unittest import mock

import pytest
import torch

from niso import collective
from niso.config import Hardware
from niso.errors import InputError, OtherProcessError
from niso.training.processes import make_fabric, network_precision

SHARED = """
import json, math, sys, time
from pathlib import Path
import torch
from torch import nn
import niso
from niso.config import Hardware, Optimisation
from niso.errors import InputError, NisoError
from niso.objective import IsometryObjective
from niso.collective import local_part, process
from niso.training import interruption
from niso.training.loop import Phase, train
from niso.training.processes import make_fabric
from niso.training.run import Run

FOLDER = Path(sys.argv[1])
def call(fabric, name, sampler, batch_size=4):
    torch.manual_seed(0)
    spectrum = niso.LearnedSpectrum(4)
    model = niso.NeuralIsometry(nn.Linear(2, 2), nn.Linear(2, 2), spectrum, relative=True)
    objective = IsometryObjective(model, 1.0, 0.1, contrastive=0.1, vicreg=0.1)
    run = Run(FOLDER / name)
    optimisation = Optimisation(steps=6, batch_size=batch_size, learning_rate=0.01, warmup_steps=2)
    phase = Phase("pretrain", objective, sampler, optimisation)
    train(phase, run, fabric, hardware=Hardware(checkpoint_seconds=0.0))

def sampler(step):
    return local_part(torch.randn(4, 4, 2)), local_part(torch.randn(4, 4, 2))
"""

TROUBLE = """
def hanging(step):
    if step == 2 and process()[0] == 1:
        (FOLDER / "now").touch()
        time.sleep(1000)
    return sampler(step)

def failing(rank, kind):
    def sample(step):
        first, second = sampler(step)
        if step == 2 and process()[0] == rank:
            if kind == "sampler":
                raise InputError("no such file")
            first = first * math.nan  # polar refuses it before the loss gathers latents
        return first, second
    return sample

if __name__ == "__main__":
    fabric, caught = make_fabric(Hardware(accelerator="cpu", devices=2, precision="64-true")), {}
    for rank, kind in ((0, "polar"), (1, "polar"), (0, "sampler"), (1, "sampler"), (0, "batch")):
        try:
            call(fabric, f"{kind}{rank}", failing(rank, kind), 3 if kind == "batch" else 4)
        except NisoError as error:
            caught[f"{kind}{rank}"] = [type(error).__name__, str(error)]
    (FOLDER / f"{fabric.global_rank}.json").write_text(json.dumps(caught))
    call(fabric, "healthy", sampler)
    interruption.PATIENCE = 1.0
    call(fabric, "hanging", hanging)
"""


@pytest.mark.slow
def test_two_processes_fail_train_and_end_together(start, tmp_path, weights):
    """Failures before a gather are raised in both. A signal ends the first though it waits, and the second with it."""
    program = tmp_path / "program.py"
    program.write_text(SHARED + TROUBLE)
    process = start(tmp_path, program=program)
    deadline = time.monotonic() + 120
    while not (tmp_path / "now").exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)  # returns when both have closed it
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "it has waited for another process" in err and "the last checkpoint stays: `niso resume" in err

    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first.keys() == second.keys() and len(first) == 5
    for name in first:
        by_rank = (first, second) if name.endswith("0") else (second, first)
        kind, message = by_rank[0][name]
        if name == "batch0":
            assert kind == "InputError" and "batch size 3 does not divide among 2 processes" in message
            assert by_rank[1][name] == ["OtherProcessError", "process 0 failed"]
            continue  # no step was made
        if name.startswith("polar"):
            assert kind == "TrainingError" and "pretrain: step 3: polar: matrices" in message
        else:
            assert (kind, message) == ("InputError", "no such file")
        assert by_rank[1][name] == ["OtherProcessError", f"process {name[-1]} failed"]
        assert all(tensor.isfinite().all() for tensor in weights(tmp_path / name).values())

    both = weights(tmp_path / "healthy")
    for name, tensor in weights(one_process(tmp_path / "one")).items():
        torch.testing.assert_close(both[name], tensor, rtol=1e-8, atol=1e-8, msg=lambda m, n=name: f"{n}: {m}")


def one_process(folder):
    """The same training of the whole batch in this process."""
    with mock.patch.object(sys, "argv", ["program", str(folder.parent)]):
        names = {}
        exec(SHARED, names)
        names["call"](make_fabric(Hardware(accelerator="cpu", precision="64-true")), folder.name, names["sampler"])
    return folder


def test_together_in_one_process_is_nothing():
    for context in (collective.together(), collective.together(agree=False)):
        with pytest.raises(KeyError), context:
            raise KeyError
    with collective.together():
        pass


def test_failures_are_exchanged_before_a_gather_only_inside_together(monkeypatch):
    """By processes that answer for another one: the second fails, or all go on."""
    asked = []

    def exchange(answer):
        monkeypatch.setattr(collective, "process", lambda: (0, 2))
        monkeypatch.setattr(collective, "_first_failure", lambda failed: asked.append(failed) or answer)
        monkeypatch.setattr(collective._GlobalBatch, "apply", lambda part: torch.cat([part, part]))

    exchange(None)
    assert len(collective.global_batch(torch.ones(3, 2))) == 6 and asked == []
    with collective.together():
        assert len(collective.global_batch(torch.ones(3, 2))) == 6 and asked == [False]
    assert asked == [False, False]
    asked.clear()
    exchange(1)
    with pytest.raises(OtherProcessError, match="process 1 failed"), collective.together():
        collective.global_batch(torch.ones(3, 2))
    assert asked == [False]  # once: the other one does not answer again
    with pytest.raises(OtherProcessError, match="process 1 failed"), collective.together():
        pass
    exchange(0)
    with pytest.raises(KeyError), collective.together():
        raise KeyError


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "64-true"])
def test_networks_run_in_the_precision_of_the_run(precision):
    fabric = make_fabric(Hardware(accelerator="cpu", precision=precision))
    context = network_precision(fabric)
    with context():
        product = torch.ones(2, 2) @ torch.ones(2, 2)
        assert torch.get_default_dtype() == torch.float32
    assert product.dtype == (torch.bfloat16 if precision == "bf16-mixed" else torch.float32)
    assert (context is nullcontext) == (precision != "bf16-mixed")


TORCHRUN = {"TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "4"}
_PLACES = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
BATCH = {"SLURM_NTASKS": "1", "SLURM_JOB_NAME": "train", **dict.fromkeys(_PLACES, "0")}
"""The environment of a script of SLURM, which starts programs without srun."""
TWO = {**BATCH, "SLURM_NTASKS": "2"}
STEP = {**TWO, "SLURM_STEP_NUM_TASKS": "2"}
"""The environment of what srun has started."""


@pytest.mark.parametrize(
    ("environment", "hardware", "problem"),
    [
        (TORCHRUN, Hardware(accelerator="cpu"), "torchrun has started 4 processes .*--devices 1 and .*ask for 1"),
        (TORCHRUN, Hardware(accelerator="cpu", devices=2), "torchrun has started 4 processes .* ask for 2"),
        (BATCH, Hardware(accelerator="cpu", devices=8), "SLURM has started 1 process .*`srun --ntasks-per-node 8`"),
        (TWO, Hardware(accelerator="cpu", devices=2), "SLURM has started 1 process .*`srun --ntasks-per-node 2`"),
        ({**STEP, "SLURM_NTASKS_PER_NODE": "1"}, Hardware(accelerator="cpu", devices=2), "per-node=1"),
    ],
)
def test_a_launcher_has_started_what_is_asked_for(monkeypatch, environment, hardware, problem):
    """Else SLURM's one process would train alone, and each of torchrun's would train the run by itself."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    begun = []
    with pytest.raises(InputError, match=problem):
        make_fabric(hardware, lambda: begun.append(1))
    assert begun == []


def test_a_task_of_several_or_a_program_may_run_alone(monkeypatch):
    for name, value in {**TWO, "SLURM_NTASKS_PER_NODE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert make_fabric(Hardware(accelerator="cpu")).world_size == 1
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert make_fabric(Hardware(accelerator="cpu"), tune=False).world_size == 1


def test_float32_is_float32_in_convolutions(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    make_fabric(Hardware(accelerator="cpu"), tune=False)
    assert not torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(("there", "accelerator"), [(True, "cuda"), (False, "cpu")])
def test_what_is_found_by_itself_is_an_nvidia_gpu_or_none(monkeypatch, there, accelerator):
    asked = []

    class Asked(Exception):
        pass

    def fabric(**arguments):
        asked.append(arguments["accelerator"])
        raise Asked

    monkeypatch.setattr("lightning_fabric.Fabric", fabric)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    with pytest.raises(Asked):
        make_fabric(Hardware(), tune=False)
    assert asked == [accelerator]


def test_a_library_caller_keeps_its_settings(monkeypatch):
    changed = []
    monkeypatch.setattr(torch, "set_num_threads", changed.append)
    monkeypatch.setattr("niso.training.processes.keep_freed_memory", lambda: changed.append("memory"))
    make_fabric(Hardware(accelerator="cpu", threads=3), tune=False)
    assert changed == []
    make_fabric(Hardware(accelerator="cpu", threads=3))
    assert changed == [3, "memory"]
