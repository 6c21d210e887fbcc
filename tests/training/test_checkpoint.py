import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn, optim

from niso.errors import CheckpointError
from niso.training import checkpoint

TENSORS = {"model.weight": torch.arange(6.0).reshape(2, 3), "optimizer.weight.step": torch.tensor(3.0)}
FACTS = {"phase": "pretrain", "step": 3, "note": "ü"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoints" / "pretrain.safetensors"


def trained(steps: int = 3, module: nn.Module | None = None) -> tuple[nn.Module, optim.Optimizer]:
    torch.manual_seed(1)
    module = module or nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    optimizer = optim.AdamW(module.parameters(), lr=0.1, fused=True)
    for _ in range(steps):
        step(module, optimizer)
    return module, optimizer


def step(module: nn.Module, optimizer: optim.Optimizer) -> None:
    optimizer.zero_grad()
    module(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()


def files(path: Path) -> list[str]:
    return sorted(os.listdir(path.parent))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_round_trip_keeps_every_bit(path, dtype):
    tensors = {
        "a": torch.randn(5, 4).mT.to(dtype),
        "b": torch.zeros(0, 3, dtype=dtype),
        "c": torch.ones((), dtype=dtype),
    }
    checkpoint.save(path, tensors, FACTS)
    loaded, facts = checkpoint.load(path)
    assert facts == FACTS
    assert loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[name], tensors[name]) and loaded[name].dtype == dtype for name in tensors)


def test_tensors_may_share_memory(path):
    whole = torch.randn(4, 4)
    checkpoint.save(path, {"whole": whole, "view": whole[1:3].mT, "same": whole}, {})
    loaded, _ = checkpoint.load(path)
    assert torch.equal(loaded["view"], whole[1:3].mT) and torch.equal(loaded["same"], whole)


def restore(path, tensors, module, optimizer):
    checkpoint.restore_weights(path, tensors, module)
    checkpoint.restore_optimizer(tensors, module, optimizer)


def test_training_goes_on_as_if_nothing_had_happened(path):
    module, optimizer = trained()
    checkpoint.save(path, checkpoint.training_state(module, optimizer), FACTS)
    other, other_optimizer = trained(steps=1)
    restore(path, checkpoint.load(path)[0], other, other_optimizer)
    for pair in ((module, optimizer), (other, other_optimizer)):
        torch.manual_seed(7)
        step(*pair)
        step(*pair)
    states = [checkpoint.training_state(*pair) for pair in ((module, optimizer), (other, other_optimizer))]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert any(name.endswith(".exp_avg_sq") for name in states[0])


def test_restored_tensors_are_copies(path):
    module, optimizer = trained()
    state = {name: t.clone() for name, t in checkpoint.training_state(module, optimizer).items()}
    kept = {name: t.clone() for name, t in state.items()}
    restore(path, state, module, optimizer)
    step(module, optimizer)
    assert all(torch.equal(state[name], kept[name]) for name in state)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Linear(4, 5), r"of another model: bias has shape \(2,\) there and shape \(5,\) here"),
        (nn.Linear(4, 2, bias=False), r"bias has shape \(2,\) there and nothing here"),
        (nn.Sequential(nn.Linear(4, 2)), r"0\.bias has nothing there and shape \(2,\) here"),
    ],
)
def test_another_model_is_refused(path, model, words):
    state = checkpoint.training_state(*trained(module=nn.Linear(4, 2)))
    before = {name: t.clone() for name, t in model.state_dict().items()}
    with pytest.raises(CheckpointError, match=words) as error:
        checkpoint.restore_weights(path, state, model)
    assert str(path) in str(error.value) and "\n" not in str(error.value)
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())


@pytest.mark.parametrize("keep", [0, 5, 8, 40, 0.5, -1])
def test_truncated(path, keep):
    checkpoint.save(path, TENSORS, FACTS)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(CheckpointError, match="truncated or not one of niso's") as error:
        checkpoint.load(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content",
    [os.urandom(1_000), b"PK\x03\x04" + bytes(500), b"\x80\x02}q\x00.", b"{}" * 50],
    ids=["noise", "zip", "pickle", "braces"],
)
def test_not_a_checkpoint(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="truncated or not one of niso's"):
        checkpoint.load(path)


def test_safetensors_of_others_are_refused(path):
    from safetensors.torch import save_file

    path.parent.mkdir()
    for metadata in (None, {"facts": "{"}, {"format": "pt"}):
        save_file(TENSORS, path, metadata)
        with pytest.raises(CheckpointError, match="not one of niso's"):
            checkpoint.load(path)


def test_missing(path):
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        checkpoint.load(path)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit's effect is Linux's")
@pytest.mark.parametrize("there", [True, False])
def test_a_file_system_that_takes_no_more(path, there):
    """A real refusal by the kernel, in the middle of the file."""
    if there:
        checkpoint.save(path, TENSORS, FACTS)
    before = files(path) if there else None
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
        with pytest.raises(CheckpointError, match=r"cannot save checkpoint .*File too large.*ulimit") as error:
            checkpoint.save(path, {"big": torch.zeros(100_000)}, {"step": 9})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ("the previous one is intact" if there else "none was there before") in str(error.value)
    assert (files(path) if path.parent.exists() else None) == before  # nothing half-written, and no new folder
    if there:
        assert checkpoint.load(path)[1] == FACTS


def test_an_error_without_a_number_is_named(path, monkeypatch):
    def odd(*_: object) -> None:
        raise OSError("the folder went away")

    monkeypatch.setattr(os, "fsync", odd)
    with pytest.raises(CheckpointError, match=r"\(the folder went away; none was there before\): try another folder"):
        checkpoint.save(path, TENSORS, FACTS)


@pytest.mark.parametrize("function", ["fsync", "replace", "open"])
def test_full_disk_at_any_stage(path, function, monkeypatch):
    checkpoint.save(path, TENSORS, FACTS)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if function == "open":
        monkeypatch.setattr("builtins.open", full)
    else:
        monkeypatch.setattr(os, function, full)
    with pytest.raises(CheckpointError, match=r"No space left on device.*intact"):
        checkpoint.save(path, {"other": torch.zeros(3)}, {"step": 4})
    monkeypatch.undo()
    assert files(path) == [path.name]
    assert checkpoint.load(path)[1] == FACTS


WRITER = """
import os, signal, sys
from pathlib import Path
from niso.files.writing import write_atomically
setattr(os, sys.argv[2], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
write_atomically(Path(sys.argv[1]), b"new" * 1000)
"""


@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_a_writer_killed_before_the_replacement(path, function):
    checkpoint.save(path, TENSORS, FACTS)
    run = subprocess.run([sys.executable, "-c", WRITER, str(path), function], cwd=Path(__file__).parents[2])
    assert run.returncode == -signal.SIGKILL
    assert len(files(path)) == 2  # a stale temporary file
    assert checkpoint.load(path)[1] == FACTS  # ignored
    checkpoint.save(path, TENSORS, {"step": 4})
    assert files(path) == [path.name]  # and cleared away
    assert checkpoint.load(path)[1] == {"step": 4}


def test_a_reader_never_sees_a_part(tmp_path):
    """Another process writes as fast as it can and is killed; whatever is read meanwhile is whole."""
    path = tmp_path / "f.json"
    program = (
        "import itertools, json, sys\nfrom pathlib import Path\nfrom niso.files.writing import write_atomically\n"
        "for i in itertools.count(): write_atomically(Path(sys.argv[1]), json.dumps([i] * 20_000).encode())"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(path)], cwd=Path(__file__).parents[2])
    seen = set()
    while len(seen) < 20:
        assert writer.poll() is None
        if path.exists():
            values = json.loads(path.read_text())
            assert len(values) == 20_000 and len(set(values)) == 1
            seen.add(values[0])
        time.sleep(0.003)
    writer.kill()
    writer.wait()
    assert len(set(json.loads(path.read_text()))) == 1


def test_channels_last_convolutions_go_on_exactly(path):
    """The fused optimizer walks weights and moments together: both must have one memory layout."""

    def make():
        torch.manual_seed(1)
        module = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        return module, torch.optim.AdamW(module.parameters(), lr=1e-2, fused=True)

    def step(module, optimizer, seed):
        x = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(seed))
        module(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    module, optimizer = make()
    for seed in range(3):
        step(module, optimizer, seed)
    checkpoint.save(path, checkpoint.training_state(module, optimizer), {})
    step(module, optimizer, 3)
    other, other_optimizer = make()
    restore(path, checkpoint.load(path)[0], other, other_optimizer)
    step(other, other_optimizer, 3)
    assert torch.equal(module.weight, other.weight)
