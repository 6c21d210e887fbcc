"""Compiled code whose gradient is wrong is told from eager code."""

import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from niso.training.compilation import (
    CONFIG,
    WAITING,
    allow_uncompiled,
    compile_networks,
    compile_step,
    compiler_left_alone,
    undo_compilation,
    wrong_gradient,
)


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
    shares, calls = iter((1.0, 1.1, share)), []

    def step(exact):
        calls.append((torch._dynamo.eval_frame._stance.stance, exact))
        objective(x).backward()
        objective.decoder.weight.grad *= next(shares)
        objective.encoder[0].bias.grad.normal_(std=1e-6)  # as rounding leaves it

    found = wrong_gradient(objective, step)
    assert calls == [("force_eager", True), ("force_eager", False), ("default", False)]
    assert found.endswith(error) and bool(found) == bool(error)
    torch.testing.assert_close(objective.state_dict(), state, rtol=0, atol=0)
    assert all(p.grad is None for p in objective.parameters())


@pytest.mark.parametrize(("share", "error"), [(1.4, ""), (0.2, "80% off")])
def test_rounded_gradients_are_what_is_compared_with_where_exact_ones_need_too_much_memory(share, error, seeded):
    objective, x = Objective(), torch.randn(8, 3)
    objective.decoder._compiled_call_impl = objective.decoder._call_impl
    shares = iter((1.0, share))

    def step(exact):
        objective(x).backward()
        if exact:
            raise torch.OutOfMemoryError("CUDA out of memory")
        objective.decoder.weight.grad *= next(shares)

    found = wrong_gradient(objective, step)
    assert found.endswith(error) and bool(found) == bool(error)


def test_graphs_are_compared_when_they_are_replayed(seeded):
    """Torch records a CUDA graph in the second step, and runs it from then on."""
    objective, x = Objective(), torch.randn(8, 3)
    state = {name: value.clone() for name, value in objective.state_dict().items()}
    objective._compiled_call_impl = objective._call_impl
    shares = iter((1.0, 1.0, 1.0, 1.0, 0.2))

    def step(_):
        assert all(p.grad is None for p in objective.parameters())
        objective(x).backward()
        objective.decoder.weight.grad *= next(shares)

    assert wrong_gradient(objective, step, graphs=True).endswith("80% off")
    torch.testing.assert_close(objective.state_dict(), state, rtol=0, atol=0)


def test_where_there_is_no_compiler_that_is_said(seeded):
    objective, x = Objective(), torch.randn(8, 3)

    def compiled(z):
        if torch._dynamo.eval_frame._stance.stance == "default":
            raise RuntimeError("no C++ compiler\nand much more")
        return objective.decoder._call_impl(z)

    objective.decoder._compiled_call_impl = compiled
    found = wrong_gradient(objective, lambda _: objective(x).backward())
    assert found.endswith("cannot compile it here (no C++ compiler)")


def test_only_what_is_compiled_is_compared():
    objective, signs = Objective(), iter((1.0, 1.0, -1.0) * 2)
    for compiled, wrong in ((objective.encoder, False), (objective, True)):
        compiled._compiled_call_impl = compiled._call_impl
        assert (
            bool(wrong_gradient(objective, lambda _: (next(signs) * objective.decoder.weight.sum()).backward()))
            is wrong
        )


def test_where_nothing_is_compiled_no_step_is_tried():
    assert wrong_gradient(Objective(), pytest.fail) == ""


def test_what_has_no_gradient():
    objective, z = Objective(), torch.randn(2, 4)
    objective._compiled_call_impl = objective._call_impl
    assert wrong_gradient(objective, lambda _: objective.decoder(z).sum().backward()) == ""


def test_compilation_is_undone(monkeypatch):
    asked = []
    monkeypatch.setattr(nn.Module, "compile", lambda module, **_: asked.append(module))
    objective = Objective()
    compile_networks(objective)
    assert asked == [objective.encoder, objective.decoder]
    for module in (objective, *asked):
        module._compiled_call_impl = print
    undo_compilation(objective)
    assert all(module._compiled_call_impl is None for module in objective.modules())


@pytest.mark.parametrize("graphs", [False, True])
def test_memory_of_graphs_is_given_back(graphs):
    """Torch keeps compiled code, and with it graphs, as long as the module is there."""
    objective, code = Objective(), Objective.forward.__code__
    objective.compile(backend="eager")
    try:
        objective(torch.randn(8, 3)).backward()
        kept = torch._dynamo.eval_frame._debug_get_cache_entry_list
        assert kept(code)
        undo_compilation(objective, graphs)
        assert bool(kept(code)) is not graphs
        assert all((p.grad is None) is graphs for p in objective.parameters())
        objective(torch.randn(8, 3)).backward()
        undo_compilation(objective, graphs)  # nothing is compiled, and nothing is undone
        assert all(p.grad is not None for p in objective.parameters())
    finally:
        torch.compiler.reset()


GRAPHS = {"mode": "reduce-overhead"}


@pytest.mark.parametrize("graphs", [False, True])
def test_a_gpu_runs_graphs(graphs, monkeypatch):
    asked = []
    monkeypatch.setattr(nn.Module, "compile", lambda module, **how: asked.append((module, how)))
    monkeypatch.setattr("torch._inductor.config.custom_should_partition_ops", ["aten::_linalg_svd", "own::operator"])
    objective, how = Objective(), GRAPHS if graphs else {}
    compile_networks(objective, graphs)
    compile_step(objective, graphs)
    assert asked == [(objective.encoder, how), (objective.decoder, how), (objective, how)]
    outside = torch._inductor.config.custom_should_partition_ops
    others = [name for name in WAITING if name != "aten::_linalg_svd"]
    assert outside == ["aten::_linalg_svd", "own::operator", *(others if graphs else ())]  # in the same order each time


@pytest.mark.parametrize("lacking", ["torch.Tag", "torch._inductor.config"])
def test_a_whole_step_with_decompositions_is_no_graph_where_torch_cannot_leave_them_outside(lacking, monkeypatch):
    asked = []
    monkeypatch.setattr(nn.Module, "compile", lambda module, **how: asked.append(how))
    monkeypatch.setattr("niso.training.compilation.draw_as_eager_code", lambda: None)
    monkeypatch.setattr(lacking, object())
    compile_step(Objective(), graphs=True)
    assert asked == [{}]


WHOLE = """
import torch, niso
from torch._dynamo.testing import CompileCounter
from niso.objective import IsometryObjective
from niso.networks import ConvConfig, ConvDecoder, ConvEncoder

conv = ConvConfig((8, 8), 1, (8, 8), blocks=1, latent_channels=8, stem_channels=8)
model = niso.NeuralIsometry(ConvEncoder(conv), ConvDecoder(conv), niso.LearnedSpectrum(conv.points, 6))
objective = IsometryObjective(model, 0.5, 0.1, multiplicity_decay=0.1, eigenvalue_noise=0.3, eigenvalue_noise_decay=0.1)
pair, backend = tuple(torch.rand(2, 3, 1, 8, 8)), CompileCounter()
objective.compile(backend=backend, fullgraph=True)
for progress in torch.tensor((0.0, 0.5, 0.8, 1.0)):
    with torch.autocast("cpu", torch.bfloat16):
        loss = objective(pair, progress)["loss"]
    loss.backward()
print(bool(loss.isfinite()), backend.frame_count)
"""


def test_a_whole_step_is_one_graph_under_autocast(outside):
    """What the compiler cannot trace would cut it: a GPU waits at every cut. Checked types are such a thing.

    It is compiled once for all of training.
    """
    assert outside(WHOLE).split() == ["True", "1"]


def test_what_cannot_be_compiled_later_on_is_one_line(niso, monkeypatch):
    """As where temporary files of torch are removed while a run trains."""
    from torch._inductor.exc import CppCompileError, InductorError

    error = InductorError(CppCompileError(["g++"], "no such file"), None)
    monkeypatch.setattr("niso.cli.main._dispatch", Mock(side_effect=error))
    status, _, err = niso("models")
    assert status == 2 and err.startswith("niso: torch's compiler failed (CppCompileError") and err.count("\n") == 1
    assert "`niso resume`" in err


def test_what_cannot_be_compiled_in_evaluation_runs_uncompiled(monkeypatch, capsys):
    """As where a run that was trained elsewhere is evaluated without a compiler; in training, the error is raised."""
    from torch._inductor.exc import InductorError

    fail = Mock(side_effect=InductorError(RuntimeError("no compiler"), None))
    monkeypatch.setattr(nn.Module, "compile", lambda module: setattr(module, "_compiled_call_impl", fail))
    objective, x = Objective(), torch.randn(8, 3)
    compile_networks(objective)
    allow_uncompiled(objective)
    with pytest.raises(InductorError, match="no compiler"):
        objective(x)
    objective.eval()
    expected = objective.encoder._call_impl(x)
    for _ in range(2):
        torch.testing.assert_close(objective.encoder(x), expected)
    assert fail.call_count == 2
    assert capsys.readouterr().err.count("no compiler): they run uncompiled\n") == 1


@pytest.mark.parametrize("used", [True, False])
def test_settings_of_the_compiler_are_left_alone(used, monkeypatch):
    """Those of a program that uses it, and else those of a new process."""
    config = SimpleNamespace(fallback_random=used, another=1)
    monkeypatch.setitem(sys.modules, CONFIG, config)
    if not used:
        monkeypatch.delitem(sys.modules, CONFIG)
    with compiler_left_alone():
        sys.modules[CONFIG] = config
        config.fallback_random, config.another = True, 2
    assert vars(config) == {"fallback_random": used, "another": 2}
