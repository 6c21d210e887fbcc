"""`--speed auto`: what is chosen, from what was measured, and that measuring leaves no trace."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from niso.cli.run import parse_run
from niso.config import Hardware, Optimisation, to_yaml
from niso.errors import InputError
from niso.networks import ConvConfig
from niso.training import speed
from niso.training.processes import make_fabric
from niso.training.speed import Way, choose, half_slower

CPU = torch.device("cpu")
ASKED = Hardware(accelerator="cpu", speed="auto")


class Objective(nn.Module):
    """A network with a buffer that every step changes, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))

    def forward(self, batch, progress):
        return {"loss": (self.encoder(batch[0]) - batch[1]).square().mean()}


def sampler(step):
    return torch.rand(6, 3), torch.rand(6, 3)


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("NISO_SPEED_CACHE", str(tmp_path / "speed"))
    monkeypatch.setattr(speed, "cores", lambda: 2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return tmp_path / "speed"


@pytest.fixture
def seconds(monkeypatch):
    """Seconds that a step takes each way; the calls that were made."""
    times = {Way(): 1.0, Way(threads=2): 0.9, Way("bf16-mixed"): 0.5, Way("bf16-mixed", threads=2): 0.6}
    times[Way("bf16-mixed", True)] = 0.25
    calls = []
    monkeypatch.setitem(speed.COMPILING, "cpu", float("inf"))

    def step(self, way):
        calls.append(way)
        return times[way]

    monkeypatch.setattr(speed._Trial, "step", step)
    return times, calls


def chosen(steps, objective=None, **optimisation):
    hardware, facts = choose(objective or Objective(), sampler, Optimisation(steps, **optimisation), ASKED, CPU)
    assert not facts.get("precision") or Way(hardware.precision, hardware.compile, hardware.threads) == Way(
        facts["precision"], facts["compile"], facts["threads"]
    )
    return Way(hardware.precision, hardware.compile, hardware.threads), facts


def test_the_fastest_way_is_taken_and_remembered(seconds, capsys, folder):
    calls = seconds[1]
    assert chosen(1000)[0] == Way("bf16-mixed")
    assert "bf16-mixed, eager, 2.0× as fast as 32-true, eager" in capsys.readouterr().err
    calls.clear()
    way, facts = chosen(1000)
    assert (way, calls, facts["measured"]) == (Way("bf16-mixed"), [Way("bf16-mixed")], False)  # tried once
    next(folder.glob("*.json")).write_text("{")
    assert chosen(1000)[1]["measured"]
    assert chosen(1000, accumulation=2)[1]["measured"]  # another shape
    assert not chosen(1000)[1]["measured"]
    weighted = Objective()
    weighted.contrastive = 0.1  # may cost time
    assert chosen(1000, weighted)[1]["measured"]


@pytest.mark.parametrize(
    "damage",
    [
        {"32-true, eager": None},
        {"of another version": 1.0},
        {},
        *({"32-true, eager": value} for value in (-1.0, 0.0, math.inf, math.nan, "fast")),
    ],
)
def test_damaged_times_are_measured_again(seconds, folder, damage):
    chosen(1000)
    file = next(folder.glob("*.json"))
    file.write_text(json.dumps({"seconds": damage}))
    way, facts = chosen(1000)
    assert way == Way("bf16-mixed") and facts["measured"]
    assert not chosen(1000)[1]["measured"]


@pytest.mark.parametrize("fact", ["niso", "torch", "python", "hardware", "cores", "instructions"])
def test_times_are_of_one_machine(seconds, monkeypatch, fact):
    assert chosen(1000)[1]["measured"] and not chosen(1000)[1]["measured"]
    machine = speed.machine
    monkeypatch.setattr(speed, "machine", lambda device: {**machine(device), fact: "another"})
    assert chosen(1000)[1]["measured"]


def test_times_are_of_one_stride_and_configuration(seconds):
    """Which change the cost, and neither the weights nor the batch."""

    def objective(stride=(1, 1), blocks=1):
        made = Objective()
        made.encoder.stride, made.encoder.config = stride, ConvConfig(blocks=blocks)
        return made

    others = [objective(stride=(2, 1)), objective(blocks=2)]
    assert chosen(1000, objective())[1]["measured"] and not chosen(1000, objective())[1]["measured"]
    assert [chosen(1000, other)[1]["measured"] for other in others] == [True, True]


def test_what_is_hopeless_is_tried_once(seconds):
    times, calls = seconds
    times |= {Way("bf16-mixed"): 10.0, Way("bf16-mixed", threads=2): 9.0}
    assert chosen(1000)[0] == Way(threads=2)
    assert [calls.count(way) for way in times] == [3, 3, 1, 1, 0]


def test_the_first_way_is_tried_again_whatever_its_first_step_takes(seconds, monkeypatch):
    cold, step = [100.0], speed._Trial.step
    monkeypatch.setattr(speed._Trial, "step", lambda self, way: step(self, way) + (cold.pop() if cold else 0.0))
    assert chosen(1000)[1]["seconds_per_step"][str(Way())] == 1.0


def test_what_is_hardly_faster_is_not_taken(seconds):
    times, _ = seconds
    times |= {Way("bf16-mixed"): 0.95, Way("bf16-mixed", threads=2): 2.0}
    assert chosen(601)[0] == Way(threads=2)
    times[Way(threads=2)] = 0.93
    assert chosen(601, accumulation=2)[0] == Way()


def test_compilation_must_pay(seconds, monkeypatch):
    monkeypatch.setitem(speed.COMPILING, "cpu", 600.0)
    monkeypatch.setattr(speed._Trial, "compiled", lambda self, way: (200.0, 0.25))
    assert chosen(1000)[0] == Way("bf16-mixed")  # 500 s: not tried
    assert chosen(1300)[0] == Way("bf16-mixed", True)
    assert chosen(700)[0] == Way("bf16-mixed")  # 350 s against 375 s, as is known now


@pytest.mark.parametrize("fails", [False, True])
def test_graphs_are_of_whole_steps_where_these_can_be_compiled(fails, seconds, monkeypatch):
    monkeypatch.setitem(speed.COMPILING, "cpu", 0.0)
    monkeypatch.setattr(speed, "steps_become_graphs", lambda: True)
    trial, tried = speed._Trial.__init__, []

    def on_a_gpu(self, *words):
        trial(self, *words)
        self.graphs = True

    def compiled(self, way):
        tried.append(way)
        return (0.0, None) if way.whole_step and fails else (20.0, 0.25)

    monkeypatch.setattr(speed._Trial, "__init__", on_a_gpu)
    monkeypatch.setattr(speed._Trial, "compiled", compiled)
    hardware, facts = choose(Objective(), sampler, Optimisation(1000), ASKED, CPU)
    networks = Way("bf16-mixed", True)
    whole = networks._replace(whole_step=True)
    assert (hardware.compile, hardware.whole_step) == (True, not fails) == (facts["compile"], facts["whole_step"])
    assert tried == ([whole, networks] if fails else [whole])
    choose(Objective(), sampler, Optimisation(1000), ASKED, CPU)
    assert len(tried) == 1 + fails  # what failed is remembered, too


@pytest.mark.parametrize("graphs", [True, False])
def test_without_networks_a_gpu_has_whole_steps_alone_to_gain_by(graphs, seconds, monkeypatch):
    class Trial:
        def __init__(self, *_):
            self.graphs = graphs

        def key(self, ways):
            return "of the torus"

        def compare(self, ways):
            return dict.fromkeys(map(str, ways), 1.0)

        def compiled(self, way):
            tried.append(way)
            return 20.0, 0.25

    tried, objective = [], Objective()
    objective.encoder.requires_grad_(False)
    monkeypatch.setattr(speed, "steps_become_graphs", lambda: True)
    monkeypatch.setattr(speed, "_Trial", Trial)
    hardware, facts = choose(objective, sampler, Optimisation(1000), ASKED, torch.device("cuda"))
    whole = Way("32-true", True, 1, True)
    assert tried == [whole] * graphs and hardware.whole_step is graphs
    assert list(facts["seconds_per_step"]) == [str(Way()), *[str(whole)] * graphs]


def test_a_whole_step_is_timed_compiled(monkeypatch):
    made, objective = [], Objective()
    monkeypatch.setattr(speed, "compile_step", lambda objective, graphs: made.append((objective, graphs)))
    monkeypatch.setattr(speed, "wrong_gradient", lambda objective, step, _: step(False) or "")
    monkeypatch.setattr(objective, "forward", lambda batch, progress: progresses.append(progress) or {"loss": loss()})
    progresses, loss = [], lambda: objective.encoder[0].weight.sum()
    took, step = speed._Trial(objective, sampler, 1, CPU).compiled(Way("bf16-mixed", True, 1, True))
    assert made == [(objective, False)] and took > 0 and step > 0
    assert all(torch.is_tensor(progress) for progress in progresses) and progresses


def test_what_a_gpu_has_no_memory_for_is_left_out(seconds, monkeypatch, capsys):
    step, short = speed._Trial.step, ["32-true"]

    def short_of_memory(self, way):
        if way.precision in short:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return step(self, way)

    monkeypatch.setattr(speed._Trial, "step", short_of_memory)
    way, facts = chosen(1000)
    assert way == Way("bf16-mixed")
    assert facts["seconds_per_step"] == {str(Way("bf16-mixed")): 0.5, str(Way("bf16-mixed", threads=2)): 0.6}
    said = "bf16-mixed, eager, for which the GPU has memory enough, as it has not for float32; "
    assert said in capsys.readouterr().err
    assert chosen(1000)[0] == Way("bf16-mixed")  # as measured before
    short.append("bf16-mixed")
    with pytest.raises(torch.OutOfMemoryError):
        chosen(1000, accumulation=2)


def test_networks_may_not_take_half_precision(monkeypatch, capsys, tmp_path):
    """Also such as others of their name and shapes, which were measured before, do."""
    monkeypatch.setattr(speed, "GAIN", 0.0)
    monkeypatch.setattr(speed, "cores", lambda: 1)
    half = str(Way("bf16-mixed"))
    assert half in chosen(600)[1]["seconds_per_step"]
    for mistake in (ValueError, None):
        monkeypatch.setenv("NISO_SPEED_CACHE", str(tmp_path / str(mistake)))
        objective = Objective()

        def forward(batch, progress, forward=objective.forward, mistake=mistake):
            terms = forward(batch, progress)
            if torch.is_autocast_enabled("cpu"):
                if mistake:
                    raise mistake("a float is expected\nand much more")
                return {"loss": terms["loss"] * math.nan}
            return terms

        monkeypatch.setattr(objective, "forward", forward)
        way, facts = chosen(600, objective)
        assert way == Way() and list(facts["seconds_per_step"]) == [str(Way())]
        reason = "a float is expected" if mistake else "the loss is not finite"
        assert f"speed: the networks do not compute in bfloat16 ({reason})\n" in capsys.readouterr().err
    times = speed._Trial.compare
    monkeypatch.setattr(speed._Trial, "compare", lambda self, ways: times(self, ways) | {half: 1e-9})
    monkeypatch.setenv("NISO_SPEED_CACHE", str(tmp_path / "of another"))
    assert chosen(600)[0] == Way("bf16-mixed")
    monkeypatch.setattr(speed._Trial, "compare", times)
    way, facts = chosen(600, objective)
    assert way == Way() and facts["measured"] and list(facts["seconds_per_step"]) == [str(Way())]


def test_without_a_compiler(monkeypatch, capsys):
    objective = Objective()
    monkeypatch.setitem(speed.COMPILING, "cpu", 0.0)
    monkeypatch.setattr(speed, "compile_networks", lambda objective, _: objective.encoder.register_forward_hook(fail))

    def fail(*_):
        raise RuntimeError("no C++ compiler\nand much more")

    way, facts = chosen(1000, objective)
    assert not way.compile and None in facts["seconds_per_step"].values()
    assert "cannot be compiled here (no C++ compiler)" in capsys.readouterr().err


def test_compiled_code_must_have_the_gradient_of_eager_code(monkeypatch, capsys):
    monkeypatch.setitem(speed.COMPILING, "cpu", 0.0)
    monkeypatch.setattr(speed, "compile_networks", lambda *_: None)
    monkeypatch.setattr(speed, "wrong_gradient", lambda objective, step, _: step(False) or "a gradient that is 70% off")
    objective = Objective()
    way, facts = chosen(1000, objective)
    assert not way.compile and None in facts["seconds_per_step"].values()
    assert "cannot be compiled here (a gradient that is 70% off)" in capsys.readouterr().err


@pytest.mark.parametrize("why", ["a short run", "several processes", "no networks"])
def test_nothing_is_measured(why, capsys):
    objective = Objective()
    objective.encoder.requires_grad_(why != "no networks")
    optimisation = Optimisation(599 if why == "a short run" else 600)
    asked = replace(ASKED, devices=2 if why == "several processes" else 1)
    assert choose(objective, sampler, optimisation, asked, CPU) == (asked, {"not_measured": why})
    assert not capsys.readouterr().err


def test_measuring_leaves_no_trace(folder):
    folder.write_text("a file: nothing can be kept")
    objective = Objective().eval()
    state = {name: value.clone() for name, value in objective.state_dict().items()}
    random, threads = torch.get_rng_state(), torch.get_num_threads()
    facts = chosen(600, objective)[1]
    assert len(facts["seconds_per_step"]) == 4 and all(value > 0 for value in facts["seconds_per_step"].values())
    torch.testing.assert_close(objective.state_dict(), state, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), random) and torch.get_num_threads() == threads
    assert not objective.encoder.training and all(p.grad is None for p in objective.parameters())


def test_threads_that_the_environment_allows(seconds, monkeypatch):
    seconds[0][Way(threads=2)] = seconds[0][Way("bf16-mixed", threads=2)] = 0.01
    assert chosen(600)[0].threads == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert chosen(600)[0] == Way("bf16-mixed")


def test_the_command_line(tmp_path):
    assert parse_run(["homnist"]).settings.hardware == Hardware(speed="auto")
    for words in (["--speed", "exact"], ["--no-compile"], ["--precision", "32-true"], ["--threads", "1"]):
        assert parse_run(["homnist", *words]).settings.hardware == Hardware(), words
    file = tmp_path / "file.yaml"
    for asked in ("", "speed: auto, "):
        file.write_text(f"hardware: {{{asked}precision: bf16-mixed}}")
        assert parse_run(["homnist", "--config", str(file)]).settings.hardware == Hardware(precision="bf16-mixed")
    for words in (["--no-compile"], ["--precision", "32-true"], ["--threads", "1"], ["--whole-step"]):
        with pytest.raises(InputError, match=f"^--speed auto and {words[0]} exclude each other: leave one out$"):
            parse_run(["homnist", *words, "--speed", "auto"])


def test_a_run_with_the_configuration_of_one_that_chose_computes_as_that(tmp_path):
    asked = parse_run(["homnist"]).settings
    chosen = replace(asked, hardware=replace(asked.hardware, precision="bf16-mixed", compile=True, threads=2))
    (tmp_path / "config.yaml").write_text(to_yaml(chosen.dump()))
    again = parse_run(["homnist", "--config", str(tmp_path / "config.yaml")]).settings
    assert again == replace(chosen, hardware=replace(chosen.hardware, speed="exact"))


def test_half_precision_that_is_a_loss_is_named(niso, tmp_path, monkeypatch):
    fabric, half = make_fabric(ASKED), replace(ASKED, precision="bf16-mixed")
    monkeypatch.setattr(speed, "SLOWER", float("inf"))
    assert not half_slower(Objective(), half, fabric)
    monkeypatch.setattr(speed, "SLOWER", 0.0)
    assert half_slower(Objective(), half, fabric) > 0
    assert not half_slower(Objective(), replace(half, precision="32-true"), fabric)
    assert not half_slower(nn.Identity(), half, fabric)  # nothing is in bfloat16
    words = ["--steps", 1, "--batch-size", 4, "--rank", 4, "--evaluation-pairs", 2, "--out", tmp_path / "run"]
    x = np.random.default_rng(0).random((20, 16, 2))
    np.savez(tmp_path / "x.npz", x=x, tx=-x)
    err = niso("run", "pairs", "--data", tmp_path / "x.npz", *words, "--precision", "bf16-mixed").err
    assert "times as long as in float32 on this CPU → stop it" in err and f"{tmp_path / 'run' / 'config.yaml'}" in err
