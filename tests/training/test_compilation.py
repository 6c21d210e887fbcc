"""Compiled code whose gradient is wrong is told from eager code."""

import pytest
import torch
from torch import nn

from niso.training.compilation import compile_networks, undo_compilation, wrong_gradient


class Objective(nn.Module):
    """A network with a buffer that every step changes, and one whose bias has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), nn.Linear(4, 3)

    def forward(self, x):
        return (self.decoder(self.encoder(x)) - x).square().mean()


@pytest.mark.parametrize(("share", "error"), [(1.0, ""), (0.7, ""), (0.2, "80% off"), (float("nan"), "nan% off")])
def test_a_wrong_gradient_is_found(share, error, seeded):
    objective, x = Objective(), torch.randn(8, 3)
    state = {name: value.clone() for name, value in objective.state_dict().items()}
    objective.decoder._compiled_call_impl = objective.decoder._call_impl
    shares, stances = iter((1.0, share)), []

    def step():
        stances.append(torch._dynamo.eval_frame._stance.stance)
        objective(x).backward()
        objective.decoder.weight.grad *= next(shares)
        objective.encoder[0].bias.grad.normal_(std=1e-6)  # as rounding leaves it

    found = wrong_gradient(objective, step)
    assert stances == ["force_eager", "default"] and found.endswith(error) and bool(found) == bool(error)
    torch.testing.assert_close(objective.state_dict(), state, rtol=0, atol=0)
    assert all(p.grad is None for p in objective.parameters())


def test_only_what_is_compiled_is_compared():
    objective, signs = Objective(), iter((1.0, -1.0) * 2)
    for compiled, wrong in ((objective.encoder, False), (objective, True)):
        compiled._compiled_call_impl = compiled._call_impl
        assert (
            bool(wrong_gradient(objective, lambda: (next(signs) * objective.decoder.weight.sum()).backward())) is wrong
        )


def test_where_nothing_is_compiled_no_step_is_tried():
    assert wrong_gradient(Objective(), pytest.fail) == ""


def test_what_has_no_gradient():
    objective, z = Objective(), torch.randn(2, 4)
    objective._compiled_call_impl = objective._call_impl
    assert wrong_gradient(objective, lambda: objective.decoder(z).sum().backward()) == ""


def test_compilation_is_undone(monkeypatch):
    asked = []
    monkeypatch.setattr(nn.Module, "compile", lambda module: asked.append(module))
    objective = Objective()
    compile_networks(objective)
    assert asked == [objective.encoder, objective.decoder]
    for module in (objective, *asked):
        module._compiled_call_impl = print
    undo_compilation(objective)
    assert all(module._compiled_call_impl is None for module in objective.modules())
