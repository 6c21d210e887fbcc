"""The training loop with models of its own; whole runs, killed and resumed, are in test_processes.py."""

import math
import os
import resource
import signal
import sys
from dataclasses import replace
from unittest.mock import Mock
from unittest.mock import call as mock_call

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

from niso.config import Hardware, Optimisation
from niso.errors import CheckpointError, InputError, Interrupted, TrainingError
from niso.spectrum import LearnedSpectrum
from niso.training import checkpoint
from niso.training.log import read_log
from niso.training.loop import Phase, train
from niso.training.processes import make_fabric
from niso.training.run import Run
from tests.pretended import pretended_gpu, trained_there

STEPS = 12
OPTIMISATION = Optimisation(steps=STEPS, batch_size=4, learning_rate=0.01, warmup_steps=2)


class Regression(nn.Module):
    """A loss with two terms; `at` calls something in the forward pass of a step (counted from 1)."""

    def __init__(self, at=None, width=3):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.at, self.trained_with = nn.Linear(width, 1), at or {}, []

    def forward(self, batch, progress):
        step = round(float(progress) * STEPS) + 1
        self.trained_with.append((self.training, batch[0].clone()))
        fit = (self.layer(batch[0]) - batch[1]).square().mean()
        terms = {"fit": fit, "noise": 0.1 * torch.rand(())}
        if step in self.at:
            self.at[step](self, terms)
        return {"loss": terms["fit"] + terms["noise"] * 0.01, **terms}


def sampler(step):
    return torch.randn(4, 3), torch.randn(4, 1)


@pytest.fixture
def fabric():
    return make_fabric(Hardware(accelerator="cpu"))


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "run", {})


def call(objective, run, fabric, optimisation=OPTIMISATION, seconds=0.0, phase="pretrain", seed=0, **hardware):
    chosen = Hardware(checkpoint_seconds=seconds, **hardware)
    return train(Phase(phase, objective, sampler, optimisation), run, fabric, seed, chosen)


def reached(run, phase="pretrain"):
    return checkpoint.load(run.checkpoint(phase))[1]["step"]


def rows(run):
    return [row["step"] for row in read_log(run.path / "log.csv")]


def test_a_run_leaves_weights_log_and_checkpoint(run, fabric):
    objective = Regression()
    seconds = call(objective, run, fabric, seconds=60.0)
    assert seconds > 0 and not objective.training
    assert all(training for training, _ in objective.trained_with) and len(objective.trained_with) == STEPS
    tensors, facts = checkpoint.load(run.checkpoint("pretrain"))
    assert facts["phase"] == "pretrain" and facts["step"] == STEPS and facts["seconds"] == pytest.approx(seconds)
    assert torch.equal(tensors["model.layer.weight"], objective.layer.weight)
    table = read_log(run.path / "log.csv")
    assert [row["step"] for row in table] == [str(step + 1) for step in range(STEPS)]
    assert [float(row["learning_rate"]) for row in table] == pytest.approx(
        [OPTIMISATION.rate_at(step) for step in range(STEPS)], rel=1e-5
    )
    assert {"loss", "fit", "noise"} <= table[0].keys()


def test_the_caller_s_random_state_does_not_matter_but_the_seed_does(run, fabric, tmp_path):
    weights = []
    for number, (state, seed) in enumerate([(1, 5), (2, 5), (1, 6)]):
        objective = Regression()
        torch.manual_seed(state)
        call(objective, Run.create(tmp_path / str(number), {}), fabric, seed=seed)
        weights.append(objective.layer.weight.detach())
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_every_step_draws_other_numbers(run, fabric):
    objective = Regression()
    call(objective, run, fabric)
    assert len({batch[0, 0].item() for _, batch in objective.trained_with}) == STEPS


def test_a_finished_phase_is_loaded_not_trained(run, fabric):
    first, second = Regression(), Regression()
    seconds = call(first, run, fabric)
    nn.init.zeros_(second.layer.weight)
    assert call(second, run, fabric) == pytest.approx(seconds)
    assert second.trained_with == [] and not second.training
    assert torch.equal(first.layer.weight, second.layer.weight)


class Crash(BaseException):
    """As abrupt as a kill: nothing in the loop may tidy up after it."""


def crash(*_):
    raise Crash


@pytest.mark.parametrize("at", [1, 2, 7, STEPS])
@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_crash_at_any_step_changes_nothing(run, fabric, tmp_path, at, seconds):
    with pytest.raises(Crash):
        call(Regression({at: crash}), run, fabric, seconds=seconds)
    saved = run.checkpoint("pretrain").exists()
    assert saved == (at > 1 and seconds == 0.0)
    resumed, whole = Regression(), Regression()
    if saved:
        nn.init.constant_(resumed.layer.weight, 9.0)  # which the checkpoint replaces
    call(resumed, run, fabric)
    assert len(resumed.trained_with) == (STEPS + 1 - at if saved else STEPS)
    other = Run.create(tmp_path / "whole", {})
    call(whole, other, fabric)
    states = [checkpoint.load(r.checkpoint("pretrain"))[0] for r in (run, other)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[1])
    assert rows(run) == rows(other)


@pytest.mark.parametrize("at", [8, 11])
def test_a_row_of_the_log_that_had_begun_goes_on(run, fabric, tmp_path, monkeypatch, at):
    monkeypatch.setattr("niso.training.loop.row_interval", lambda steps: 5)
    with pytest.raises(Crash):
        call(Regression({at: crash}), run, fabric)
    call(Regression(), run, fabric)
    other = Run.create(tmp_path / "whole", {})
    call(Regression(), other, fabric)
    resumed, whole = ([{**row, "seconds": ""} for row in read_log(folder.path / "log.csv")] for folder in (run, other))
    assert resumed == whole and [row["step"] for row in whole] == ["5", "10", "12"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_says_how_to_go_on(run, fabric, number):
    before = signal.getsignal(number)
    kill = {5: lambda *_: signal.raise_signal(number)}
    with pytest.raises(Interrupted, match=r"saved at step 5 of 12; `niso resume .*run` goes on") as error:
        call(Regression(kill), run, fabric, seconds=60.0)
    assert error.value.number == number
    assert reached(run) == 5 and signal.getsignal(number) == before
    call(Regression(), run, fabric)
    assert reached(run) == STEPS and rows(run) == [str(step + 1) for step in range(STEPS)]


def test_a_signal_while_the_last_checkpoint_is_saved_is_not_lost(run, fabric, monkeypatch):
    save = checkpoint.save
    monkeypatch.setattr(checkpoint, "save", lambda *words: (save(*words), signal.raise_signal(signal.SIGTERM)))
    with pytest.raises(Interrupted, match=r"saved at step 12 of 12; `niso resume .*run` goes on"):
        call(Regression(), run, fabric, seconds=60.0)
    assert reached(run) == STEPS
    call(Regression({1: crash}), run, fabric)  # nothing is left to train


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_bad_loss_stops_and_keeps_the_last_good_checkpoint(run, fabric, bad):
    def spoil(_, terms):
        terms["fit"] = terms["fit"] * bad

    said = r"step 6: the term 'fit' of the loss is not finite.*last checkpoint is kept"
    with pytest.raises(TrainingError, match=said):
        call(Regression({6: spoil}), run, fabric)
    tensors, facts = checkpoint.load(run.checkpoint("pretrain"))
    assert facts["step"] == 5 and all(t.isfinite().all() for t in tensors.values())
    assert rows(run) == ["1", "2", "3", "4", "5"]


def test_a_bad_loss_in_the_first_step_speaks_of_no_checkpoint(run, fabric):
    def spoil(_, terms):
        terms["fit"] = terms["fit"] * math.nan

    with pytest.raises(TrainingError, match="training stopped: look at the values that it gets, or try a lower"):
        call(Regression({1: spoil}), run, fabric)


def test_a_gradient_that_overflows_does_not_reach_the_checkpoint(run, fabric):
    def spoil(_, terms):
        root = terms["fit"] * 0
        terms["fit"] = terms["fit"] + root.sqrt()  # finite itself; its gradient is not

    with pytest.raises(TrainingError, match=r"step 6: the update made parameter 'layer\.\w+' not finite"):
        call(Regression({6: spoil}), run, fabric)
    assert reached(run) == 5


def test_an_error_of_the_numerics_names_the_step(run, fabric):
    def spoil(*_):
        raise FloatingPointError("polar: matrices hold NaN")

    with pytest.raises(TrainingError, match="pretrain: step 4: polar: matrices hold NaN"):
        call(Regression({4: spoil}), run, fabric)
    assert reached(run) == 3


@pytest.mark.parametrize(("learning_rate", "kept"), [(1e38, False), (1e30, True)])
def test_an_absurd_learning_rate(run, fabric, learning_rate, kept):
    """A checkpoint is of the steps that still were finite, if there was one."""
    absurd = Optimisation(steps=STEPS, batch_size=4, learning_rate=learning_rate, warmup_steps=0)
    with pytest.raises(TrainingError, match=r"step \d+: .*not finite.*lower learning rate"):
        call(Regression(), run, fabric, absurd)
    assert run.checkpoint("pretrain").exists() == kept
    if kept:
        tensors, _ = checkpoint.load(run.checkpoint("pretrain"))
        weights = [tensor for name, tensor in tensors.items() if name.startswith("model.")]
        assert len(weights) == 2 and all(tensor.isfinite().all() for tensor in weights)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit's effect is Linux's")
def test_a_full_disk_stops_with_the_last_checkpoint_intact(run, fabric):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.raises(Crash):
        call(Regression({6: crash}), run, fabric)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))
        with pytest.raises(CheckpointError, match=r"File too large.*previous one is intact"):
            call(Regression(), run, fabric)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert reached(run) == 5
    call(Regression(), run, fabric)
    assert reached(run) == STEPS


def test_a_checkpoint_of_another_phase_seed_or_model_is_refused(run, fabric):
    call(Regression(), run, fabric, seed=1)
    with pytest.raises(CheckpointError, match="of another run: its seed is 1, not 2"):
        call(Regression(), run, fabric, seed=2)
    os.rename(run.checkpoint("pretrain"), run.checkpoint("head"))
    with pytest.raises(CheckpointError, match="its phase is pretrain, not head"):
        call(Regression(), run, fabric, phase="head", seed=1)
    os.rename(run.checkpoint("head"), run.checkpoint("pretrain"))
    with pytest.raises(CheckpointError, match=r"layer\.weight has shape \(1, 3\) there and shape \(1, 5\) here"):
        call(Regression(width=5), run, fabric, seed=1)


@pytest.mark.parametrize("changes", [{"learning_rate": 0.02}, {"batch_size": 8}, {"weight_decay": 0.5}])
def test_a_phase_does_not_go_on_with_other_settings(run, fabric, changes):
    call(Regression(), run, fabric)
    ((name, value),) = changes.items()
    with pytest.raises(InputError, match=f"has {name} {value} for phase pretrain, which was trained with"):
        call(Regression(), run, fabric, replace(OPTIMISATION, steps=STEPS + 3, **changes))
    changed = Regression()
    changed.weight = 2.0
    other = Regression()
    other.weight = 1.0
    call(other, run, fabric, phase="head")
    with pytest.raises(InputError, match=r"has weight 2.0 for phase head, which was trained with 1.0: undo that"):
        call(changed, run, fabric, phase="head")


@pytest.mark.parametrize("fact", ["step", "seconds", "determining", "row"])
def test_a_checkpoint_that_lacks_a_fact_is_refused(run, fabric, fact):
    call(Regression(), run, fabric)
    tensors, facts = checkpoint.load(run.checkpoint("pretrain"))
    for value in ({}, {fact: None}):
        checkpoint.save(run.checkpoint("pretrain"), tensors, {k: v for k, v in facts.items() if k != fact} | value)
        with pytest.raises(CheckpointError, match="does not say how it was trained: delete it to start anew"):
            call(Regression(), run, fabric)


def test_the_time_before_an_interruption_counts(run, fabric):
    with pytest.raises(Crash):
        call(Regression({7: crash}), run, fabric)
    tensors, facts = checkpoint.load(run.checkpoint("pretrain"))
    checkpoint.save(run.checkpoint("pretrain"), tensors, {**facts, "seconds": 1000.0})
    assert 1000 < call(Regression(), run, fabric) < 1100


def test_what_all_steps_need_is_computed_before_the_first_that_is_taken(run, fabric):
    times, objective = [], Regression()
    phase = Phase("head", objective, sampler, OPTIMISATION, lambda: times.append(len(objective.trained_with)))
    train(phase, run, fabric)
    assert times == [0] and len(objective.trained_with) == STEPS
    train(phase, run, fabric)  # nothing is left to be trained
    assert times == [0]


class Counting(Regression):
    """An objective that counts its steps in a number of its own, which no checkpoint holds."""

    def __init__(self, at=None):
        super().__init__(at)
        self.steps, self.scale = 0, 2.0

    def forward(self, batch, progress):
        self.steps += 1
        return super().forward(batch, progress)


def test_what_an_objective_changes_itself_is_no_setting_of_it(run, fabric, capsys):
    """A run with such a counter could not be gone on with, nor evaluated; settings are compared as ever."""
    stop = {2: lambda *_: signal.raise_signal(signal.SIGTERM)}
    with pytest.raises(Interrupted):
        call(Counting(stop), run, fabric)
    said = "! pretrain: the objective changes steps while it is trained, which checkpoints do not hold: make it a"
    assert capsys.readouterr().err.count(said) == 1
    call(Counting(), run, fabric)
    whole, other = Counting(), Counting()
    checkpoint.open_phase(run.checkpoint("pretrain"), whole, OPTIMISATION)
    other.scale = 3.0
    with pytest.raises(
        InputError, match=r"the objective now has scale 3\.0 for phase pretrain, which was trained with 2\.0"
    ):
        checkpoint.open_phase(run.checkpoint("pretrain"), other, OPTIMISATION)


class Remembering(Regression):
    def get_extra_state(self):
        return {"calls": 0}


def test_state_that_is_no_tensor_is_refused_before_training(run, fabric):
    objective = Remembering()
    with pytest.raises(InputError, match=r"pretrain: _extra_state is state that is no tensor.*make it a buffer"):
        call(objective, run, fabric)
    assert not objective.trained_with


class Turned(nn.Module):
    """The loss of eigenfunctions that turn away from where they start."""

    def __init__(self):
        super().__init__()
        self.spectrum = LearnedSpectrum(6, 4, eigenfunctions="rotation")
        self.register_buffer("start", self.spectrum().eigenfunctions.detach().clone())

    def forward(self, batch, progress):
        assert self.spectrum.basis.count_nonzero() == 0  # derivatives are exact there alone
        return {"loss": (self.spectrum().eigenfunctions * self.start).sum() + batch[0].sum() * 0}


def test_learned_bases_are_retracted_after_every_step(run, fabric):
    objective = Turned()
    call(objective, run, fabric)
    assert objective.spectrum.basis.count_nonzero() == 0
    assert (objective.spectrum().eigenfunctions - objective.start).abs().max() > 1e-3


def test_frozen_bases_stay_to_the_bit(run, fabric):
    """Else their features would be others where a head goes on than where it began."""
    objective = Regression()
    objective.backbone = LearnedSpectrum(6, 4, eigenfunctions="rotation").requires_grad_(False)
    with torch.no_grad():
        objective.backbone.frame.mul_(1 + 1e-6)  # rounded, as after many steps
    frame = objective.backbone.frame.clone()
    call(objective, run, fabric)
    assert torch.equal(objective.backbone.frame, frame)


def test_networks_that_were_read_before_are_trained_in_training_mode(run, fabric):
    """As the second phase of a run is: an evaluation, or the phase before, has left them in the other mode."""
    objective = Regression().eval()
    call(objective, run, fabric)
    assert all(training for training, _ in objective.trained_with)


def test_phases_share_the_log(run, fabric):
    call(Regression(), run, fabric)
    call(Regression(), run, fabric, phase="head")
    assert [row["phase"] for row in read_log(run.path / "log.csv")] == ["pretrain"] * STEPS + ["head"] * STEPS


def test_frozen_parameters_stay(run, fabric):
    objective = Regression()
    objective.layer.bias.requires_grad_(False)
    before = objective.layer.bias.clone()
    call(objective, run, fabric)
    assert torch.equal(objective.layer.bias, before)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "64-true"])
def test_every_precision_takes_batches_in_float32(run, precision):
    """Networks run in the precision of the run; labels, and targets of mixed precision, are left alone."""
    seen = []

    class Classification(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, batch, progress):
            scores = self.layer(batch[0])
            seen.append((batch[0].dtype, batch[1].dtype, scores.dtype))
            return {"loss": nn.functional.cross_entropy(scores.float(), batch[1])}

    def labelled(step):
        assert torch.get_default_dtype() == torch.float32
        return torch.randn(4, 3), torch.randint(2, (4,))

    objective, fabric = Classification(), make_fabric(Hardware(accelerator="cpu", precision=precision))
    train(Phase("pretrain", objective, labelled, replace(OPTIMISATION, accumulation=2)), run, fabric)
    weights = torch.float64 if precision == "64-true" else torch.float32
    scores = torch.bfloat16 if precision == "bf16-mixed" else weights
    assert set(seen) == {(weights, torch.int64, scores)}
    assert objective.layer.weight.dtype == weights and objective.layer.weight.isfinite().all()


def test_a_checkpoint_beyond_the_steps_wanted_is_refused_and_one_before_them_goes_on(run, fabric):
    call(Regression(), run, fabric)
    with pytest.raises(InputError, match=r"asks for 6 steps of phase pretrain, but 12 are trained") as error:
        call(Regression(), run, fabric, replace(OPTIMISATION, steps=6))
    assert "\n" not in str(error.value) and reached(run) == STEPS
    objective = Regression()
    call(objective, run, fabric, replace(OPTIMISATION, steps=STEPS + 3))
    assert len(objective.trained_with) == 3 and reached(run) == STEPS + 3


def test_hardware_that_is_not_there():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match="cannot run with accelerator gpu") as error:
        make_fabric(Hardware(accelerator="gpu"))
    assert "\n" not in str(error.value)


def test_several_machines_need_a_launcher(monkeypatch):
    for name in ("RANK", "SLURM_PROCID", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="2 nodes need a launcher"):
        make_fabric(Hardware(nodes=2))


class Autoencoder(Regression):
    def __init__(self, decoder):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(3, 3), decoder

    def forward(self, batch, progress):
        return super().forward((self.decoder(self.encoder(batch[0])), batch[1]), progress)


def test_compiling_changes_the_speed_alone(run, fabric, tmp_path, monkeypatch):
    asked, kinds = [], []

    class Watched(Autoencoder):
        def forward(self, batch, progress):
            kinds.append(type(progress))
            return super().forward(batch, progress)

    monkeypatch.setattr(nn.Module, "compile", lambda module, **_: asked.append(module))
    plain, compiled = Watched(nn.Identity()), Watched(nn.Identity())
    call(plain, run, fabric)
    assert not asked
    call(compiled, Run.create(tmp_path / "compiled", {}), fabric, compile=True)
    assert asked == [compiled.encoder]  # a decoder without parameters has nothing to gain
    assert plain.state_dict().keys() == compiled.state_dict().keys()
    assert set(kinds) == {float}
    kinds.clear()
    whole = Watched(nn.Identity())
    call(whole, Run.create(tmp_path / "whole", {}), fabric, compile=True, whole_step=True)
    assert asked[1:] == [whole]
    assert set(kinds) == {torch.Tensor}  # a number would be a constant of the compiled code


@pytest.mark.parametrize("accumulation", [1, 2])
def test_on_a_gpu_networks_are_graphs_while_they_train(run, monkeypatch, accumulation):
    asked, begun = [], []
    monkeypatch.setattr(nn.Module, "compile", lambda module, **how: asked.append(how))
    monkeypatch.setattr("niso.training.loop.begin_step", lambda: begun.append(1))
    monkeypatch.setattr("niso.training.loop.undo_compilation", undone := Mock())
    objective = Regression()
    objective.encoder = objective._modules.pop("layer")
    objective.layer = objective.encoder
    optimisation, hardware = replace(OPTIMISATION, accumulation=accumulation), Hardware(compile=True)
    with pretended_gpu() as gpu, trained_there():
        phase = Phase("pretrain", objective, lambda step: tuple(x.to(gpu) for x in sampler(step)), optimisation)
        train(phase, run, make_fabric(Hardware(accelerator="cpu")), hardware=hardware)
    steps = OPTIMISATION.steps if accumulation == 1 else 0  # graphs overwrite gradients that have to add up
    assert asked == [{"mode": "reduce-overhead"} if steps else {}] and len(begun) == steps
    assert undone.mock_calls == [mock_call(objective, graphs=True)] * bool(steps)


def test_on_a_gpu_nothing_is_logged_that_was_not_looked_at(run, monkeypatch):
    monkeypatch.setattr("niso.training.loop.row_interval", lambda steps: 3)
    monkeypatch.setattr("niso.training.loop.LOOK_EVERY", 2)
    objective = Regression(at={3: lambda _, terms: terms.update(other=torch.tensor(math.nan))})
    with pretended_gpu() as gpu, trained_there():
        phase = Phase("pretrain", objective, lambda step: tuple(x.to(gpu) for x in sampler(step)), OPTIMISATION)
        with pytest.raises(TrainingError, match="a step up to 3: the term 'other'"):
            train(phase, run, make_fabric(Hardware(accelerator="cpu")))
    assert not rows(run)


def test_training_goes_on_uncompiled_where_compiled_gradients_are_wrong(run, fabric, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(nn.Module, "compile", lambda module: setattr(module, "_compiled_call_impl", None))
    plain, compiled = Regression(), Regression()
    call(plain, run, fabric)
    monkeypatch.setattr(
        "niso.training.loop.wrong_gradient", lambda objective, step, _: step(True) or "a gradient is 70% off"
    )
    monkeypatch.setattr("niso.training.loop.undo_compilation", undone := Mock())
    other = Run.create(tmp_path / "compiled", {})
    call(compiled, other, fabric, compile=True)
    undone.assert_called_once_with(compiled, False)
    torch.testing.assert_close(compiled.state_dict(), plain.state_dict(), rtol=0, atol=0)
    assert other.facts["not_compiled"] == "a gradient is 70% off" and "not_compiled" not in run.facts
    assert "pretrain: a gradient is 70% off: training goes on uncompiled" in capsys.readouterr().err


def test_decoders_are_not_compiled_for_what_follows_training(run, fabric, monkeypatch):
    monkeypatch.setattr(nn.Module, "compile", lambda module: setattr(module, "_compiled_call_impl", module._call_impl))
    objective, called = Autoencoder(nn.Linear(3, 3)), []
    objective.decoder.register_forward_hook(lambda module, *_: called.append(module._compiled_call_impl))
    call(objective, run, fabric, compile=True)
    assert called and None not in called  # in training
    assert objective.decoder._compiled_call_impl is None and objective.encoder._compiled_call_impl is not None


def test_several_processes_compile_no_graph_in_pieces(run, monkeypatch):
    monkeypatch.setattr("torch._dynamo.config.optimize_ddp", True)
    monkeypatch.setattr(nn.Module, "compile", lambda module: None)
    lone, two = (Mock(spec=Fabric, world_size=size, setup=Mock(side_effect=StopIteration)) for size in (1, 2))
    for fabric, hardware, cuts in ((lone, {"compile": True}, True), (two, {}, True), (two, {"compile": True}, False)):
        with pytest.raises(StopIteration):
            call(Regression(), run, fabric, **hardware)
        assert torch._dynamo.config.optimize_ddp is cuts
