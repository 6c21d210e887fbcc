"""The pretended GPU refuses what a real one refuses."""

import pytest
import torch
from torch import nn

import niso
from tests.pretended import CPU, FIRST, pretended_gpu, waits


@pytest.fixture
def gpu():
    with pretended_gpu() as device:
        yield device


REFUSED = {
    "a sum across devices": lambda here, there: here + there,
    "a number on the GPU": lambda here, there: here + there[0, 0],
    "numbers across devices": lambda here, there: torch.stack([here[0, 0], there[0, 0]]),
    "values elsewhere": lambda here, there: there.__setitem__(torch.tensor([0, 1]), here[:2]),
    "a product across devices": lambda here, there: there @ here,
    "a layer elsewhere": lambda here, there: nn.Linear(3, 3)(there),
    "an index elsewhere": lambda here, there: here[(there > 0).nonzero()[:, 0]],
    "an array": lambda here, there: there.numpy(),
    "pinning": lambda here, there: there.pin_memory(),
    "a generator elsewhere": lambda here, there: torch.rand(3, device=there.device, generator=torch.Generator()),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_refused(gpu, call):
    with pytest.raises((RuntimeError, TypeError), match=r"device|CPU|GPU"):
        call(torch.ones(3, 3), torch.ones(3, 3, device=gpu))


def test_devices_follow_tensors(gpu):
    there = torch.ones(3, 3, device="cuda:0")
    here = there.cpu()
    layer = nn.Linear(3, 3).to(gpu)
    on_gpu = (there.mT[0], there.double(), torch.zeros_like(there), here.to(there), there * torch.tensor(2.0))
    assert {x.device for x in (there, *on_gpu, *layer.parameters(), layer(there))} == {FIRST}
    assert {x.device for x in (here, here[0], torch.rand(2), *layer.cpu().parameters())} == {CPU}
    assert here[torch.tensor([0])].device == CPU and there[torch.tensor([0])].is_cuda


def test_waits_are_noted(gpu):
    """`niso.linalg.svd` looks whether singular values are finite."""
    waits.clear()
    there = torch.eye(3, device=gpu)
    niso.polar(there[None])
    assert waits == ["linalg/svd.py"]
    niso.polar(there.cpu()[None])
    assert waits == ["linalg/svd.py"]
