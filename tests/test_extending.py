"""The promise of CONTRIBUTING: a new data set, action, method, head, spectrum, baseline, experiment or figure is one
file and one line in a registry.

Everything between two lines of dashes would be such a file; a test counts its lines.
"""

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from niso import fit, load
from niso.autoencoding import Autoencoding
from niso.cli.main import main
from niso.cli.run import parse_run
from niso.config import Optimisation
from niso.data.digits import DIGITS, read_digits
from niso.data.digits.mnist import Digits
from niso.data.squares import signed
from niso.data.transformed import related
from niso.errors import InputError
from niso.experiments import EXPERIMENTS
from niso.experiments.experiment import Experiment, Phase
from niso.experiments.head import try_head
from niso.experiments.homnist.presets import HomnistConfig
from niso.experiments.pose.experiment import Pose
from niso.experiments.pose.inference import load_reader
from niso.experiments.pose.predictors import BASELINES
from niso.experiments.pose.predictors.predictor import Baseline
from niso.experiments.pose.presets import PoseConfig
from niso.experiments.settings import Settings
from niso.experiments.trial import try_method, try_spectrum
from niso.functional_map import least_squares_map
from niso.geometry import ACTIONS, se3
from niso.geometry.domains.domain import Domain, box
from niso.geometry.make import make_action
from niso.losses import reconstruction
from niso.methods import METHODS, methods_of
from niso.methods.config import ClassifierConfig, IsometryConfig, MethodConfig
from niso.methods.evaluation.pairs import PAIR_METRICS, evaluate_pairs
from niso.methods.heads import HEADS
from niso.methods.heads.head import Head
from niso.methods.method import Method, Networks
from niso.methods.spectra import SPECTRA
from niso.methods.spectra.parametrisation import Parametrisation
from niso.networks import MLP
from niso.report import Picture
from niso.results import Curve, Result
from niso.spectrum import Eigenfunctions, Eigenvalues, FixedSpectrum, Spectrum, SpectrumModule, smooth_functions
from niso.training.run import Run

# ---------------------------------------------------------------------------------------------------- a data set


def bars() -> Digits:
    """A horizontal or a vertical bar, at any place."""

    def images(count: int) -> tuple[Tensor, Tensor]:
        pixels, labels = torch.zeros(count, 12, 12, dtype=torch.uint8), torch.arange(count) % 2
        for index in range(count):
            bar = pixels[index] if labels[index] else pixels[index].mT
            bar[2 + index % 8] = 255
        return pixels, labels

    return Digits(*images(64), *images(16))


# ---------------------------------------------------------------------------------------------------- an action


@dataclass(frozen=True)
class QuarterTurns:
    """Quarter turns. Observations are images (batch, channels, side, side); transformations (batch,) integers."""

    unit = "quarter turns"
    most: int = 3

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        return torch.randint(self.most + 1, (count,), generator=generator, device="cpu")

    def act(self, x: Tensor, t: Tensor) -> Tensor:
        turned = torch.stack([x.rot90(quarters, (-2, -1)) for quarters in range(4)])
        return turned[t.to(x.device), torch.arange(len(x), device=x.device)]

    def compose(self, second: Tensor, first: Tensor) -> Tensor:
        return (first + second) % 4

    def inverse(self, t: Tensor) -> Tensor:
        return -t % 4

    def strength(self, t: Tensor) -> Tensor:
        return torch.minimum(t % 4, -t % 4).float()


# ---------------------------------------------------------------------------------------------------- a method


class Linear(Autoencoding):
    """An autoencoder whose latents any linear map relates."""

    def forward(self, batch: tuple[Tensor, ...], progress: float) -> dict[str, Tensor]:
        a, b = self.encode(torch.cat(batch)).chunk(2)
        return {"loss": reconstruction(self.decode(least_squares_map(a, b, 1e-3) @ a), batch[1])}


@dataclass(frozen=True)
class Ridge:
    weight: float = 1e-3


class LeastSquares(Method):
    map_text = "any linear map"
    isometric = False
    reads = Method.reads - {"norm"}
    settings_class = Ridge

    def build(self, networks: Networks) -> Autoencoding:
        return Linear(networks.encoder, networks.decoder)

    def objective(self) -> nn.Module:
        return self.model

    def solve(self, a: Tensor, b: Tensor) -> Tensor:
        return least_squares_map(a, b, self.own_settings(self.config).weight)


# ---------------------------------------------------------------------------------------------------- a head


@dataclass(frozen=True)
class SingularValuesConfig:
    count: int = 2


class SingularValues(Head):
    """A perceptron on the largest singular values, which no orthogonal map changes."""

    reads = frozenset({"mlp"})
    settings_class = SingularValuesConfig

    @classmethod
    def make(cls, examples: Tensor, classes: int, config: ClassifierConfig, eigenvalues: Tensor | None) -> nn.Module:
        return Scores(cls.own_settings(config).count, classes, config.mlp)


class Scores(MLP):
    def forward(self, a: Tensor) -> Tensor:
        return super().forward(torch.linalg.svdvals(a)[..., : self.layers[0].in_features])


# ---------------------------------------------------------------------------------------------------- a spectrum


@dataclass(frozen=True)
class SmoothConfig:
    first: float = 1.0


class Smooth(Parametrisation):
    """Smooth functions that are not trained."""

    settings_class = SmoothConfig
    needs_places = True

    @classmethod
    def unread(cls, config: MethodConfig) -> dict[str, str]:
        return dict.fromkeys(("eigenvalues", "eigenfunctions"), "--spectrum smooth is not learned")

    @classmethod
    def make(cls, config: MethodConfig, domain: Domain, grid: tuple[int, ...], rank: int) -> FixedSpectrum:
        functions = smooth_functions(domain(*grid).points, rank).float()
        values = cls.own_settings(config).first + torch.arange(rank)
        return FixedSpectrum(torch.ones(len(functions)), torch.linalg.qr(functions)[0], values)


# ---------------------------------------------------------------------------------------------------- a baseline


class Colours(Baseline):
    """Mean colours of both frames → perceptron → relative pose."""

    reads = frozenset({"mlp"})

    def __init__(self, config: PoseConfig) -> None:
        super().__init__()
        self.head = MLP(6, se3.PARAMETERS, config.mlp)

    @classmethod
    def build(cls, config: PoseConfig) -> "Colours":
        return cls(config)

    def numbers(self, first: Tensor, second: Tensor) -> Tensor:
        return self.head(torch.cat((first.mean((-2, -1)), second.mean((-2, -1))), dim=-1))


# ---------------------------------------------------------------------------------------------------- an experiment


@dataclass(frozen=True)
class ToyConfig(MethodConfig):
    width: int = 3


TRAINING = Optimisation(steps=3, batch_size=4, warmup_steps=1)


class Toy(Experiment):
    name, summary, figures = "toy", "Bars that are turned.", __name__
    config_class, presets = ToyConfig, {"quick": ToyConfig(rank=4, evaluation_pairs=8, training=TRAINING)}
    metrics = PAIR_METRICS

    def build(self) -> None:
        self.action, self.data = ACTIONS.find("quarter-turn")(), DIGITS.find("bars")()
        encoder, decoder = nn.Linear(12, self.config.width), nn.Linear(self.config.width, 12)  # rows are points
        self.method = self.make_method(lambda: Networks(encoder, decoder, (1, 12), self.config.width))

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return methods_of(maps=True)

    def phases(self) -> Iterator[Phase]:
        yield Phase("pretrain", self.method.objective(), self.sample, self.config.training)

    def sample(self, step: int) -> tuple[Tensor, ...]:
        pairs = related(self.data.train_images, self.config.training.batch_size, self.action)
        return tuple(view.flatten(1, 2) for view in pairs)

    def evaluate(self) -> Result:
        x = signed(self.data.test_images)[:, None]
        tx = self.action.act(x, torch.arange(len(x)) % 4)
        return Result(evaluate_pairs(self.method, [(x.flatten(1, 2), tx.flatten(1, 2))]).metrics)


# ---------------------------------------------------------------------------------------------------- a figure


def errors(result: Result) -> Picture:
    figure = Figure((2, 1))
    figure.subplots().bar(range(len(result.metrics)), list(result.metrics.values()))
    return Picture("errors", "All errors of the toy.", figure)


# ----------------------------------------------------------------------------------------------------

FIGURES = (errors,)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line each."""
    monkeypatch.setitem(DIGITS, "bars", f"{__name__}.bars")
    monkeypatch.setitem(ACTIONS, "quarter-turn", f"{__name__}.QuarterTurns")
    monkeypatch.setitem(METHODS, "least-squares", f"{__name__}.LeastSquares")
    monkeypatch.setitem(HEADS, "singular-values", f"{__name__}.SingularValues")
    monkeypatch.setitem(SPECTRA, "smooth", f"{__name__}.Smooth")
    monkeypatch.setitem(BASELINES, "colours", f"{__name__}.Colours")
    monkeypatch.setitem(EXPERIMENTS, "toy", f"{__name__}.Toy")


@pytest.mark.usefixtures("registered", "drawn")
@pytest.mark.parametrize("method", ["least-squares", "niso"])
def test_a_toy_experiment_is_trained_and_reported(niso, tmp_path, method):
    status, out, err = niso("run", "toy", "--method", method, "--out", tmp_path / "run")
    assert status == 0, err
    assert "relative_map_error" not in out and "equivariance_error" in out  # no other observation has the same T
    assert "examples:" not in niso("run", "toy", "--help")[1]  # it has none
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Bars that are turned." in page and "All errors of the toy." in page and "time of training" in page
    assert (tmp_path / "run" / "figures" / "errors.png").exists()


def test_what_a_method_lacks_is_named_before_training():
    networks = Networks(nn.Linear(3, 2), nn.Linear(2, 3), (1, 12), 2)

    class Wrapped(LeastSquares):
        def build(self, networks: Networks) -> nn.Module:
            return nn.Sequential(networks.encoder)

    class Unsolved(Method):
        build, objective = LeastSquares.build, LeastSquares.objective

    with pytest.raises(TypeError, match=r"Wrapped\.build must give .* with an `encoder` and a `decoder`"):
        Wrapped(MethodConfig(), networks)
    with pytest.raises(TypeError, match=r"height and width, or \(1, points\), or three sides, not \(12,\)"):
        LeastSquares(MethodConfig(), networks._replace(grid=(12,)))
    with pytest.raises(TypeError, match="Unsolved lacks `solve`: define it, or say has_maps = False"):
        Unsolved(MethodConfig(), networks)


@pytest.mark.usefixtures("registered")
def test_an_evaluation_must_give_a_result(niso, tmp_path, monkeypatch):
    monkeypatch.setattr(Toy, "evaluate", lambda self: {"accuracy": 1.0})
    with pytest.raises(TypeError, match=r"toy: `evaluate` must give a niso\.results\.Result, not dict"):
        niso("run", "toy", "--out", tmp_path / "run")


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_a_toy_method_action_and_data_set_work_in_homnist(niso, tmp_path):
    words = "--digits bars --action quarter-turn --method least-squares --steps 2 --head.steps 2 --batch-size 4"
    small = "--evaluation-pairs 4 --test-copies 2 --conv.channels 4 --conv.latent-channels 4 --conv.stem-channels 4"
    status, out, err = niso("run", "homnist", *words.split(), *small.split(), "--out", tmp_path / "run")
    assert status == 0, err
    assert "accuracy_val" in out
    curves = (tmp_path / "run" / "curves.json").read_text()
    assert "quarter turns" in curves


FEW = {"steps": 2, "batch_size": 4, "evaluation_pairs": 4, "latent_channels": 4}
OWN = "homnist --digits bars --method niso --classifier singular-values --spectrum smooth"


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_a_head_and_a_spectrum_are_trained_and_loaded(niso, tmp_path):
    words = "--steps 2 --head.steps 2 --batch-size 4 --head.accumulation 2 --rank 4 --mlp.channels 4 --speed exact"
    small = "--evaluation-pairs 4 --test-copies 2 --conv.channels 4 --conv.latent-channels 4 --conv.stem-channels 4"
    run = tmp_path / "run"
    status, _, err = niso("run", *OWN.split(), *words.split(), *small.split(), "--out", run)
    assert status == 0, err
    loaded = load(run)
    assert isinstance(loaded.method.model.spectrum, FixedSpectrum)
    assert loaded.predict(np.zeros((3, *loaded.shape), np.uint8)).shape == (3,)


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_a_head_and_a_spectrum_are_for_data_of_ones_own(tmp_path):
    x = np.random.default_rng(0).standard_normal((40, 1, 8, 8)).astype(np.float32)
    parts = {"classifier": "singular-values", "spectrum": "smooth", "rank": 4, "head": {"steps": 2}}
    fitted = fit(x, transform="shift", method="niso", label=np.arange(40) % 2, **parts, **FEW, progress=False)
    assert isinstance(fitted.method.model.spectrum, FixedSpectrum)
    assert np.array_equal(load(fitted.save(tmp_path / "model")).probabilities(x), fitted.probabilities(x))


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (f"{OWN} --vector-neurons.layers 2", "--classifier is singular-values"),
        (f"{OWN} --start smooth", "--spectrum is smooth"),
        (f"{OWN} --field.width 9", "--spectrum is smooth"),
        (f"{OWN} --eigenvalues sorted", "--spectrum smooth is not learned"),
        ("homnist --method niso --mlp.layers 2", "--classifier is vector-neurons"),
        ("homnist --method autoencoder --classifier singular-values", "the method autoencoder does not read it"),
        ("pairs --method autoencoder --classifier singular-values", "the method autoencoder does not read it"),
        ("pairs --method nft --classifier eigenspaces", "eigenspaces is for maps that commute with an operator"),
        ("pairs --method nft --spectrum field", "the method nft does not read it"),
    ],
)
def test_settings_that_a_head_or_a_spectrum_does_not_read_are_refused(refused, call, reason):
    assert reason in refused("run", *call.split())


@pytest.mark.usefixtures("registered")
def test_a_head_that_needs_no_operator_is_for_every_method():
    for method in ("nft", "niso-no-basis", "niso-no-operator", "niso"):
        call = parse_run(f"homnist --method {method} --classifier singular-values --mlp.layers 2".split())
        assert METHODS.find(method).head_of(call.settings.config) is SingularValues
    assert METHODS.find("nft").head_of(HomnistConfig(classifier="spectral")) is HEADS.find("vector-neurons")


@pytest.mark.usefixtures("registered")
def test_help_lists_heads_and_spectra_of_a_program(niso):
    text = niso("run", "homnist", "--help-all").out
    assert "{vector-neurons,spectral,eigenspaces,singular-values}" in text and "{table,field,smooth}" in text


@pytest.mark.usefixtures("registered")
def test_own_parts_have_settings_of_their_own(niso, tmp_path, monkeypatch):
    words = "--action quarter-turn --action-settings most=1 --classifier-settings count=3 --spectrum-settings first=2"
    config = parse_run(f"{OWN} {words}".split()).settings.config
    assert SingularValues.own_settings(config) == SingularValuesConfig(3) and Smooth.own_settings(config).first == 2
    made = Smooth.make(config, box, (3, 3), 2)
    assert made().eigenvalues.tolist() == [2, 3]
    assert make_action("--action", "quarter-turn", "images", (1, 4, 4), config.action_settings) == QuarterTurns(1)
    least = parse_run("pairs --method least-squares --method-settings weight=2".split()).settings
    assert LeastSquares.own_settings(least.config) == Ridge(2.0)
    values = least.dump()
    assert values["config"]["method_settings"] == {"weight": 2}
    assert Settings.load(values, tmp_path) == least


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_settings_of_own_parts_are_kept_with_a_trained_model(tmp_path):
    x = np.random.default_rng(0).standard_normal((40, 1, 8, 8)).astype(np.float32)
    own = {"classifier_settings": {"count": 1}, "head": {"steps": 2}, "classifier": "singular-values"}
    own |= {"method_settings": {"weight": 3}, "transform_settings": {"most": 1}}
    fitted = fit(
        x, transform="quarter-turn", method="least-squares", label=np.arange(40) % 2, **own, **FEW, progress=False
    )
    loaded = load(fitted.save(tmp_path / "model"))
    assert LeastSquares.own_settings(loaded.method.config) == Ridge(3.0)
    assert loaded.settings.config.reading.transform_settings == {"most": 1}
    assert np.array_equal(loaded.probabilities(x), fitted.probabilities(x))


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (f"{OWN} --classifier-settings cuont=3", "classifier singular-values has no setting 'cuont'; did you mean cou"),
        (f"{OWN} --classifier-settings count=x", "classifier singular-values: count: "),
        (f"{OWN} --spectrum-settings first=nan", "spectrum smooth: first must be finite, got nan"),
        (f"{OWN} --spectrum-settings first", "--spectrum-settings: 'first' must be NAME=VALUE"),
        (f"{OWN} --spectrum-settings", "--spectrum-settings: give NAME=VALUE, one or several, or leave it out"),
        (
            f"{OWN} --method-settings weight=1",
            "--method-settings has no effect, leave it out: the method niso has no",
        ),
        ("homnist --method nft --classifier-settings count=1", "classifier vector-neurons has no settings of its own"),
        (
            "pairs --method autoencoder --classifier-settings count=1",
            "vector-neurons has no settings of its own",
        ),
        ("torus --spectrum-settings first=1", "spectrum table has no settings of its own"),
        ("toy --method least-squares --method-settings weihgt=1", "no setting 'weihgt'; did you mean weight"),
        ("toy --method niso --method-settings weight=1", "the method niso has no settings of its own"),
        ("pose --method colours --method-settings a=1", "the method colours has no settings of its own"),
        (
            "homnist --digits bars --action quarter-turn --action-settings mots=1",
            "no setting 'mots'; did you mean mos",
        ),
        ("homnist --digits bars --action shift --action-settings size=1", "action shift has no settings of its own"),
        ("pairs --transform colour --transform-settings channels=1", "no setting 'channels'; choose from deviation"),
    ],
)
def test_settings_that_a_part_does_not_have_are_refused(refused, tmp_path, call, reason):
    assert reason in refused("run", *call.split(), "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("registered")
def test_a_baseline_for_poses_is_trained_reported_and_read(niso, refused, tmp_path):
    words = "--size 8 --clips 3 --clip-frames 12 --test-clips 2 --test-frames 30 --mlp.layers 1 --mlp.channels 4"
    steps = "--head.steps 2 --head.warmup-steps 1 --head.batch-size 4 --validation 0 --speed exact"
    run = tmp_path / "run"
    status, out, err = niso("run", "pose", "--method", "colours", *words.split(), *steps.split(), "--out", run)
    assert status == 0, err
    assert "ate_normalised_skip1" in out and "equivariance_error_skip1" not in out
    assert "colours: Mean colours of both frames" in (run / "report.html").read_text()
    assert isinstance(load_reader(run).predictor, Colours)
    with pytest.raises(InputError, match="was trained by colours, which has no encoder"):
        load(run)
    assert "the method colours does not read it; niso, " in refused("run", "pose", "--method", "colours", "--steps", 2)
    unread = refused("run", "pose", "--method", "colours", "--shared-clips", 8)
    assert "the method colours does not read it" in unread


@pytest.mark.usefixtures("registered")
def test_a_baseline_that_is_none_harms_no_other(refused, monkeypatch):
    monkeypatch.setitem(BASELINES, "broken", "no.such.Thing")
    monkeypatch.setitem(BASELINES, "network", f"{__name__}.Linear")
    assert {"colours", "niso"} <= set(Pose.methods()) and not {"broken", "network"} & set(Pose.methods())
    assert parse_run(["pose", "--method", "colours", "--mlp.layers", "2"]).settings.method == "colours"
    assert "registered as no.such.Thing, which does not exist" in refused("run", "pose", "--method", "broken")
    assert "no subclass of niso.experiments.pose" in refused("run", "pose", "--method", "network")
    assert "unknown method 'colors'; did you mean colours?" in refused("run", "pose", "--method", "colors")
    assert "unknown method 'colours'" in refused("run", "torus", "--method", "colours")


def test_each_is_under_forty_lines():
    sources = inspect.getsource(inspect.getmodule(bars)).split("\n# " + "-" * 100 + " ")[1:]
    parts = {part.split("\n", 1)[0]: part.split("\n# " + "-" * 100)[0] for part in sources}
    names = ["a data set", "an action", "a method", "a head", "a spectrum", "a baseline", "an experiment", "a figure"]
    assert list(parts) == names
    lines = {name: sum(bool(line.strip()) for line in part.splitlines()[1:]) for name, part in parts.items()}
    assert max(lines.values()) < 40, lines


# Mistakes


def fails(niso, words, error, message):
    """What the user's own code does wrong is shown with the place, and said in a line that tells what is right."""
    with pytest.raises(error, match=message):
        niso("run", "toy", *words)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"total": torch.zeros(())}, r'an objective gives a mapping with "loss" in it, not one of total'),
        (torch.zeros(()), r'an objective gives a mapping with "loss" in it, not a tensor \(\)'),
        (None, r'an objective gives a mapping with "loss" in it, not None'),
        ({"loss": torch.zeros(2)}, r"an objective gives a scalar tensor for each term, not a tensor \(2,\) for 'loss'"),
        ({"loss": torch.zeros(()), "note": 3.0}, "a scalar tensor for each term, not 3.0 for 'note'"),
        (
            {"loss": torch.zeros((), dtype=torch.complex64, requires_grad=True)},
            "an objective gives a real number for each term, not torch.complex64 for 'loss'",
        ),
        ({"loss": torch.zeros(())}, "loss has no gradient: is it detached, or made under no_grad"),
    ],
)
def test_losses_of_another_form_are_named(niso, refused, tmp_path, monkeypatch, terms, message):
    """Before training; the loop names them, too, where the first batch does not show them."""
    monkeypatch.setattr(Linear, "forward", lambda *_: terms)
    words = "--method", "least-squares", "--speed", "exact", "--out", tmp_path / "run"
    line = refused("run", "toy", *words)
    assert re.search(message, line) and "LeastSquares.objective: " in line
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(Experiment, "try_first", lambda *_: None)
    fails(niso, words, TypeError, message)


@pytest.mark.usefixtures("registered")
def test_an_objective_that_changes_its_batch_is_refused(refused, tmp_path, monkeypatch):
    forward = Linear.forward

    def changing(self, batch, progress):
        batch[0].mul_(2)
        return forward(self, batch, progress)

    monkeypatch.setattr(Linear, "forward", changing)
    line = refused("run", "toy", "--method", "least-squares", "--out", tmp_path / "run")
    assert "LeastSquares.objective changes its batch" in line and not (tmp_path / "run").exists()


@pytest.mark.usefixtures("registered")
def test_phases_have_names_of_their_own_and_are_one_or_more(niso, tmp_path, monkeypatch):
    phases = Toy.phases
    monkeypatch.setattr(Toy, "phases", lambda self: [*phases(self), *phases(self)])
    fails(niso, ["--out", tmp_path / "two"], ValueError, "toy has two phases 'pretrain': each needs a name of its own")
    monkeypatch.setattr(Toy, "phases", lambda self: [])
    fails(niso, ["--out", tmp_path / "none"], ValueError, "toy has no phases")
    monkeypatch.setattr(Toy, "phases", lambda self: list(phases(self)))
    assert niso("run", "toy", "--out", tmp_path / "list").status == 0


@pytest.mark.usefixtures("registered")
def test_metrics_that_are_not_described_are_kept_with_a_word_and_are_numbers(niso, tmp_path, monkeypatch):
    result = Result({})  # its own numbers, of any type
    result.metrics.update({"own": np.float32(1.5), "whole": torch.tensor(2)})
    result.curves["by"] = Curve(x=np.arange(2.0), y=torch.ones(2), count=[3, 3], x_label="time", y_label="error")
    monkeypatch.setattr(Toy, "evaluate", lambda self: result)
    status, _, err = niso("run", "toy", "--out", tmp_path / "run")
    words = "toy does not describe own, whole: reports show them without a word of what they are; add a Metric for each"
    assert status == 0 and words in err
    assert ">own<" in (tmp_path / "run" / "report.html").read_text()
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["own"], metrics["whole"], metrics["steps"]) == (1.5, 2.0, 3)
    assert {**Run.open(tmp_path / "run").curves["by"]} == {**result.curves["by"], "x": [0.0, 1.0], "y": [1.0, 1.0]}
    result.metrics["own"] = torch.zeros(2)
    fails(niso, ["--out", tmp_path / "vector"], TypeError, r"metric 'own' is tensor\(\[0., 0.\]\): give a number")


@pytest.mark.usefixtures("registered", "drawn")
def test_a_figure_that_fails_does_not_cost_the_metrics(niso, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.FIGURES", (lambda result: result.metrics["no such"],))
    fails(niso, ["--out", tmp_path / "run"], KeyError, "no such")
    assert "equivariance_error" in json.loads((tmp_path / "run" / "metrics.json").read_text())
    monkeypatch.setattr(f"{__name__}.FIGURES", (lambda result: Figure((1, 1)),))
    fails(niso, ["--out", tmp_path / "other"], TypeError, r"gives a Figure, not a niso.report.Picture")
    monkeypatch.setattr(f"{__name__}.FIGURES", (errors))
    fails(niso, ["--out", tmp_path / "one"], TypeError, r"FIGURES must be a tuple .*, not function")


@pytest.mark.usefixtures("registered")
def test_errors_of_the_users_own_code_are_not_those_of_the_disk(niso, tmp_path, monkeypatch):
    def sample(self, step):
        raise ConnectionError("the camera does not answer")

    monkeypatch.setattr(Toy, "sample", sample)
    fails(niso, ["--out", tmp_path / "run"], ConnectionError, "the camera does not answer")


@dataclass(frozen=True)
class GroupedConfig(ToyConfig):
    training: Optimisation = field(default_factory=lambda: TRAINING)  # in a group: its flags have a prefix


@pytest.mark.usefixtures("registered")
def test_help_and_hints_name_the_flags_that_an_experiment_has(niso, refused, tmp_path, monkeypatch):
    assert "--steps 3 " in niso("run", "toy", "--help")[1]
    assert niso("run", "toy", "--steps", 2, "--out", tmp_path / "run").status == 0
    monkeypatch.setattr(Toy, "config_class", GroupedConfig)
    monkeypatch.setattr(Toy, "presets", {"quick": GroupedConfig(rank=4, evaluation_pairs=8)})
    assert "--training.steps 3 " in niso("run", "toy", "--help")[1]
    assert "did you mean --training.steps?" in refused("run", "toy", "--steps", 2)


class Heir(Toy):
    """Has the name of its parent."""


@pytest.mark.usefixtures("registered")
def test_names_are_refused_that_are_another_experiments_or_unknown_elsewhere(refused, tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "heir", f"{__name__}.Heir")
    assert "Heir has name = 'toy': give it this name" in refused("run", "heir", "--out", tmp_path / "run")
    words = ["--out", tmp_path / "sweep", "--seeds", 2, "--parallel", 2]
    assert "do not know the experiment toy of your program" in refused("run", "toy", *words)
    words = ["--method", "least-squares", *words]
    assert "do not know the method least-squares" in refused("run", "homnist", *words)
    for option, name in (("digits", "bars"), ("classifier", "singular-values"), ("spectrum", "smooth")):
        words = [f"--{option}", name, *words[2:]]
        assert f"do not know the {option} {name}" in refused("run", "homnist", "--method", "niso", *words)
    unread = refused("run", "homnist", "--digits", "bars", "--data-dir", tmp_path)
    assert "--data-dir has no effect, add --digits mnist to read it" in unread
    monkeypatch.setitem(EXPERIMENTS, "torus", f"{__name__}.Heir")
    monkeypatch.setattr(Heir, "name", "torus", raising=False)
    assert "do not know the experiment torus" in refused("run", "torus", *words[2:])
    monkeypatch.setitem(METHODS, "broken", "no.such.Thing")
    assert "registered as no.such.Thing, which does not exist" in refused("run", "pairs", "--method", "broken")
    monkeypatch.setitem(METHODS, "network", f"{__name__}.Linear")
    assert "Linear is no subclass of niso.methods.method.Method" in refused("run", "pairs", "--method", "network")
    assert "unknown method 'brokn'" in refused("run", "pairs", "--method", "brokn")
    monkeypatch.setitem(EXPERIMENTS, "table", "builtins.dict")
    assert "builtins.dict is no subclass of niso.experiments.experiment.Experiment" in refused("run", "table")
    monkeypatch.setattr(Heir, "name", "heir", raising=False)
    monkeypatch.delattr(Toy, "figures")
    monkeypatch.delattr(Toy, "metrics")
    assert "Heir lacks metrics, figures: " in refused("run", "heir", "--out", tmp_path / "run")


# Mistakes in own parts are named before anything is trained


class OneMore(SingularValues):
    @classmethod
    def make(cls, examples, classes, config, eigenvalues):
        return super().make(examples, classes + 1, config, eigenvalues)


class ForEach(Head):
    @classmethod
    def make(cls, examples, classes, config, eigenvalues):
        return nn.Linear(examples.shape[2], classes)


class Fewer(ForEach):
    @classmethod
    def make(cls, examples, classes, config, eigenvalues):
        return nn.Linear(examples.shape[2] + 1, classes)


class Lines(nn.Linear):
    def forward(self, input):
        raise RuntimeError("sizes do not match:\nexpected 3, got 4")


class Wordy(Head):
    @classmethod
    def make(cls, examples, classes, config, eigenvalues):
        return Lines(examples.shape[2], classes)


class Nothing(Head):
    @classmethod
    def make(cls, examples, classes, config, eigenvalues):
        return None


class Untrained(Head):
    @classmethod
    def make(cls, examples, classes, config, eigenvalues):
        head = SingularValues.make(examples, classes, config, eigenvalues)
        return head.requires_grad_(False)


def mistaken(name, mistake):
    """A head with a mistake in its scores."""

    class Mistaken(Scores):
        def forward(self, a):
            return mistake(super().forward(a))

    def make(cls, examples, classes, config, eigenvalues):
        return Mistaken(2, classes, config.mlp)

    return type(name, (SingularValues,), {"make": classmethod(make), "__module__": __name__})


Endless = mistaken("Endless", lambda scores: scores / 0)
Chance = mistaken("Chance", lambda scores: scores + torch.randn_like(scores))
Mixing = mistaken("Mixing", lambda scores: scores - scores.mean(0))
Squeezed = mistaken("Squeezed", torch.squeeze)
Cut = mistaken("Cut", torch.detach)
Elsewhere = mistaken("Elsewhere", lambda scores: scores.to("meta"))


class Lacking(Head):
    pass


class OfInstance(Head):
    def make(self, examples, classes, config, eigenvalues):
        return None


class OtherWords(Head):
    @classmethod
    def make(cls, examples, classes):
        return None


class Listed(SingularValues):
    reads = ["mlp"]  # noqa: RUF012


class Texted(SingularValues):
    reads = "mlp"


class Unknown(SingularValues):
    reads = frozenset({"nonsense"})


class InTuple(SingularValues):
    @classmethod
    def unread(cls, config):
        return ("norm",)


class RankLess(Smooth):
    @classmethod
    def make(cls, config, domain, grid, rank):
        return super().make(config, domain, grid, rank - 1)


class Unmade(Smooth):
    @classmethod
    def make(cls, config, domain, grid, rank):
        return super().make(config, domain, grid, 1 / 0.0)


class NoSpectrum(Smooth):
    @classmethod
    def make(cls, config, domain, grid, rank):
        return super().make(config, domain, grid, rank).eigenfunctions


class PointLess(Smooth):
    @classmethod
    def make(cls, config, domain, grid, rank):
        made = super().make(config, domain, grid, rank)
        mass, functions = made.mass[1:], torch.linalg.qr(made.eigenfunctions[1:])[0]
        return FixedSpectrum(mass, functions, made.eigenvalues)


class Turned(SpectrumModule):
    """Of a basis, by QR: mass, eigenfunctions and eigenvalues are all learned."""

    def __init__(self, functions):
        super().__init__()
        points, rank = functions.shape
        self.basis, self.log_mass = nn.Parameter(functions), nn.Parameter(torch.zeros(points))
        self.logarithms = nn.Parameter(torch.linspace(-1, 1, rank))

    points = property(lambda self: len(self.log_mass))
    rank = property(lambda self: len(self.logarithms))

    def forward(self):
        mass = self.log_mass.softmax(0)
        root = mass.sqrt()[:, None]
        return Spectrum(mass, torch.linalg.qr(root * self.basis).Q / root, self.logarithms.exp())


def learned(name, forward=Turned.forward, **methods):
    """A spectrum that is learned, with methods of its own."""
    kind = type(f"Own{name}", (Turned,), {"forward": forward, **methods})

    def make(cls, config, domain, grid, rank):
        return kind(smooth_functions(domain(*grid).points, rank).float())

    return type(name, (Smooth,), {"make": classmethod(make), "__module__": __name__})


def changed_to(**parts):
    """What gives parts in place of its own: functions of mass, eigenfunctions and eigenvalues."""

    def forward(self):
        given = Turned.forward(self)
        return given._replace(**{name: part(getattr(given, name)) for name, part in parts.items()})

    return forward


def lowered(self):
    """Φ that is orthonormal for the mass of before training alone."""
    given = Turned.forward(self)
    return given._replace(eigenfunctions=torch.linalg.qr(self.basis).Q * self.points**0.5)


def unmade(self, mass):
    """Starts the mass, and leaves Φ as it was."""
    self.functions = self().eigenfunctions.detach()
    self.log_mass.copy_(mass.log())
    return True


def held(self):
    given = Turned.forward(self)
    return given._replace(eigenfunctions=getattr(self, "functions", given.eigenfunctions))


Whole = learned("Whole")
InTuples = learned("InTuples", lambda self: tuple(Turned.forward(self)))
RankLessValues = learned("RankLessValues", changed_to(eigenvalues=lambda values: values[1:]))
InColumns = learned("InColumns", changed_to(mass=lambda mass: mass[:, None]))
Complex = learned("Complex", changed_to(eigenfunctions=lambda functions: functions + 0j))
Negative = learned("Negative", changed_to(eigenvalues=torch.neg))
Massless = learned("Massless", changed_to(mass=lambda mass: mass * (torch.arange(len(mass)) > 0)))
NotFinite = learned("NotFinite", changed_to(eigenvalues=lambda values: values / 0))
Wide = learned("Wide", changed_to(eigenfunctions=lambda functions: 3 * functions))
Random = learned("Random", changed_to(eigenvalues=lambda values: values + torch.rand_like(values)))
Drifting = learned("Drifting", lowered)
Descending = learned("Descending", changed_to(eigenvalues=lambda values: values.log() + 1.0))
Started = learned("Started", held, start_mass_at_=unmade)
Failing = learned("Failing", lambda self: torch.zeros(3) @ torch.zeros(4))
Unready = learned("Unready", retract_=lambda self: self.frame.copy_(self.basis))
Alone = learned("Alone", eigenvalues_alone=lambda self: self.logarithms)
OtherRoles = learned("OtherRoles", roles=lambda self: {"eigenvalue": [self.logarithms]})
Uncopied = learned("Uncopied", __deepcopy__=lambda self, memo: 1 / 0)
Unsaid = learned("Unsaid", start_mass_at_=lambda self, mass: None)
Foreign = learned("Foreign", changed_to(eigenvalues=lambda values: values.to("meta")))


SMALL = (
    "homnist --digits bars --method niso --rank 4 --steps 1 --head.steps 1 --batch-size 4 --evaluation-pairs 4 "
    "--test-copies 2 --conv.channels 4 --conv.latent-channels 4 --conv.stem-channels 4"
)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("part", "message"),
    [
        (OneMore, r"OneMore must give scores of 2 classes, here \(8, 2\), not torch.float32 of \(8, 3\)"),
        (ForEach, "ForEach (must give scores of 2 classes|does not classify .*TypeCheckError)"),
        (Fewer, "Fewer does not classify features of this method: RuntimeError: mat1 and mat2"),
        (Wordy, "Wordy does not classify .*: RuntimeError: sizes do not match: expected 3, got 4$"),
        (Nothing, r"Nothing\.make must give a torch.nn.Module, not NoneType"),
        (Untrained, "Untrained has no parameters to train"),
        (Endless, "Endless gives scores that are not finite"),
        (
            Chance,
            "scores of classifier wrong: Chance for an observation differ from call to call in evaluation mode: let",
        ),
        (
            Mixing,
            "scores of classifier wrong: Mixing for an observation depend on the others of its batch in evaluation",
        ),
        (Squeezed, r"Squeezed (must give scores of 2 classes, here \(1, 2\)|does not classify .*TypeCheckError)"),
        (Cut, r"Cut cuts off its gradients, so that it does not train: leave out detach\(\) and torch.no_grad\(\)"),
        (Elsewhere, "Elsewhere gives scores on meta, but its features are on cpu"),
        (Lacking, "Lacking lacks make: see niso.methods.heads.head.Head"),
        (OfInstance, r"OfInstance\.make must be a classmethod of \(examples, classes, config, eigenvalues\)"),
        (OtherWords, r"OtherWords\.make must be a classmethod of \(examples, classes, config, eigenvalues\)"),
        (Listed, r"Listed\.reads must be a frozenset of names, .* not \['mlp'\]"),
        (Texted, r"Texted\.reads must be a frozenset of names, .* not 'mlp'"),
        (Unknown, r"Unknown\.reads names nonsense, which is no setting"),
        (InTuple, r"InTuple\.unread must give a dict of settings and reasons, not tuple"),
        (RankLess, r"RankLess\.make must give a spectrum of \d+ points and rank 4, not of \d+ and 3"),
        (PointLess, r"PointLess\.make must give a spectrum of (\d+) points and rank 4, not of (?!\1)\d+ and 4"),
        (Unmade, r"Unmade\.make fails: ZeroDivisionError: float division by zero"),
        (NoSpectrum, r"NoSpectrum\.make must give a niso.spectrum.SpectrumModule, not torch.float32 of"),
        (Negative, "spectrum wrong: Negative: eigenvalues must not be negative"),
    ],
)
def test_a_head_or_a_spectrum_of_another_form_is_named_before_training(refused, tmp_path, monkeypatch, part, message):
    registry, flag = (SPECTRA, "--spectrum") if issubclass(part, Smooth) else (HEADS, "--classifier")
    monkeypatch.setitem(registry, "wrong", f"{__name__}.{part.__name__}")
    line = refused("run", *SMALL.split(), flag, "wrong", "--out", tmp_path / "run")
    assert re.search(message, line), line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (InTuples, "spectrum wrong: InTuples must give a niso.Spectrum, of mass, eigenfunctions and .*, not tuple"),
        (RankLessValues, r"spectrum wrong: RankLessValues: eigenvalues must be \(rank,\) with rank 4, not \(3,\)"),
        (InColumns, r"spectrum wrong: InColumns: mass must be \(points,\) with points (\d+), not \(\1, 1\)"),
        (Complex, "spectrum wrong: Complex: eigenfunctions must hold floating-point numbers, not torch.complex64"),
        (Massless, "spectrum wrong: Massless: a mass must be positive and finite at every point"),
        (NotFinite, "spectrum wrong: NotFinite: a spectrum must be finite"),
        (Wide, "spectrum wrong: Wide: eigenfunctions must be M-orthonormal, but ΦᵀMΦ differs from I by 8"),
        (Random, "eigenvalues of spectrum wrong: Random differ from call to call in evaluation mode: draw once"),
        (
            Drifting,
            "Drifting after a change of its parameters, as in training: eigenfunctions must be M-orthonormal.*: "
            "compute all three anew",
        ),
        (Descending, "Descending after a change of its .*: eigenvalues must not be negative: compute all three anew"),
        (Started, "spectrum wrong: Started after start_mass_at_: eigenfunctions must be M-orthonormal"),
        (Unsaid, "Unsaid.start_mass_at_ must say whether the mass starts there, True or False, not None"),
        (Failing, "spectrum wrong: Failing fails: RuntimeError: inconsistent tensor size"),
        (Unready, "Unready.retract_ fails: AttributeError: .* has no attribute 'frame'"),
        (Alone, "Alone.eigenvalues_alone gives other eigenvalues than a call"),
        (OtherRoles, "OtherRoles.roles: unknown role 'eigenvalue'; did you mean eigenvalues?"),
        (Uncopied, "spectrum wrong: Uncopied cannot be copied: ZeroDivisionError"),
    ],
)
def test_a_spectrum_of_another_form_is_named(part, message):
    """As a command does that tries it, of which `Negative` above is one."""
    made = part.make(None, box, (4, 4), 4)
    with pytest.raises(InputError, match=message):
        try_spectrum(f"spectrum wrong: {part.__name__}", made, device=torch.device("cpu"))


def test_a_spectrum_of_poses_is_tried_before_clips_are_made(refused, tmp_path, monkeypatch):
    monkeypatch.setitem(SPECTRA, "wrong", f"{__name__}.{Negative.__name__}")
    line = refused("run", "pose", "--rank", "4", "--spectrum", "wrong", "--out", tmp_path / "run")
    assert "spectrum wrong: Negative: eigenvalues must not be negative" in line and not (tmp_path / "run").exists()


@pytest.mark.usefixtures("registered")
def test_a_spectrum_that_is_one_is_trained_and_stays_as_it_was(monkeypatch):
    monkeypatch.setitem(SPECTRA, "whole", f"{__name__}.Whole")
    x = np.random.default_rng(0).standard_normal((20, 12, 2)).astype(np.float32)
    settings = {"method": "niso", "rank": 4, "steps": 1, "spectrum": "whole", "evaluation_pairs": 4}
    tried = fit(x, x[:, ::-1].copy(), speed="exact", **settings).spectrum
    monkeypatch.setattr("niso.experiments.trial.try_spectrum", lambda *_: None)
    untried = fit(x, x[:, ::-1].copy(), speed="exact", **settings).spectrum
    assert all(np.array_equal(one, other) for one, other in zip(tried, untried, strict=True))


@pytest.mark.usefixtures("registered")
def test_a_spectrum_on_points_says_whether_it_needs_their_places(monkeypatch, capsys):
    """Their weights are where the mass starts, or a line says that they are not."""
    monkeypatch.setitem(SPECTRA, "whole", f"{__name__}.Whole")
    monkeypatch.setattr(Whole, "needs_places", False)
    x = np.random.default_rng(0).standard_normal((20, 12, 2)).astype(np.float32)
    data = {"x": x, "tx": x[:, ::-1].copy(), "kind": "points", "weights": np.linspace(1, 2, 12)}
    settings = {"method": "niso", "rank": 4, "steps": 1, "evaluation_pairs": 4, "speed": "exact"}
    with pytest.raises(InputError, match=r"spectrum=smooth needs places on a latent grid, and points of functions"):
        fit(**data, spectrum="smooth", **settings)
    capsys.readouterr()
    for spectrum, told in {"table": False, "whole": True}.items():
        fit(**data, spectrum=spectrum, progress=True, **settings)
        line = "weights are not read: the mass of the spectrum does not start at them"
        assert (line in capsys.readouterr().err) == told


@pytest.mark.parametrize("name", [name for name in SPECTRA if name in SPECTRA.own])
@pytest.mark.parametrize("eigenfunctions", get_args(Eigenfunctions))
@pytest.mark.parametrize("eigenvalues", get_args(Eigenvalues))
def test_spectra_of_niso_are_not_refused(name, eigenfunctions, eigenvalues):
    config = IsometryConfig(spectrum=name, eigenvalues=eigenvalues, eigenfunctions=eigenfunctions)
    made = SPECTRA.find(name).make(config, box, (3, 4), 5)
    before, state = torch.get_rng_state(), {key: value.clone() for key, value in made.state_dict().items()}
    try_spectrum(name, made)
    assert torch.equal(torch.get_rng_state(), before) and made.training
    assert all(torch.equal(value, state[key]) for key, value in made.state_dict().items())


def test_a_spectrum_on_another_device_is_named():
    made = Foreign.make(IsometryConfig(), box, (3, 4), 5)
    with pytest.raises(InputError, match="eigenvalues are on meta, but networks on cpu: hold what"):
        try_spectrum("own", made, device=torch.device("cpu"))


class Spectral(METHODS.find("niso")):  # type: ignore[misc]
    """Of a spectrum that it makes itself."""

    def build(self, networks):
        model = super().build(networks)
        model.spectrum = Wide.make(self.config, networks.domain, networks.grid, model.spectrum.rank)
        return model


@pytest.mark.usefixtures("registered")
def test_a_spectrum_that_a_method_makes_is_tried(refused, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "wrong", f"{__name__}.Spectral")
    line = refused("run", "toy", "--method", "wrong", "--out", tmp_path / "run")
    assert "the spectrum of Spectral: eigenfunctions must be M-orthonormal" in line
    assert not (tmp_path / "run").exists()


class Apart(LeastSquares):
    def objective(self):
        return nn.Linear(1, 1)


class Plain(LeastSquares):
    def objective(self):
        return lambda batch, progress: {}


class ListedMethod(LeastSquares):
    reads = ["norm"]  # noqa: RUF012


class Objectless(LeastSquares):
    objective = None


class Ending(nn.Linear):
    """Has what it gets no more."""

    def forward(self, a):
        return super().forward(a.mul_(2).flatten(1))


class OwnHead(LeastSquares):
    def head(self, config, examples, classes):
        return Ending(examples[0].numel(), classes)


def test_a_head_that_changes_its_features_is_refused():
    method = OwnHead(ClassifierConfig(rank=4), Networks(nn.Linear(3, 2), nn.Linear(2, 3), (1, 12), 2))
    with pytest.raises(InputError, match=r"^OwnHead\.head changes the features that it gets"):
        try_head(method, ClassifierConfig(), torch.randn(5, 12, 3), 2)


@pytest.mark.usefixtures("registered")
def test_a_method_of_another_form_is_named_and_harms_no_other(niso, refused, tmp_path, monkeypatch):
    for part, message in {
        Apart: "Apart.objective does not hold the parameters of Apart's model: keep the model as a submodule",
        Plain: "Plain.objective must give a torch.nn.Module, not function",
        Objectless: "Objectless.objective must give a torch.nn.Module, not NoneType",
        ListedMethod: "ListedMethod.reads must be a frozenset of names",
    }.items():
        monkeypatch.setitem(METHODS, "wrong", f"{__name__}.{part.__name__}")
        assert message in refused("run", "toy", "--method", "wrong", "--out", tmp_path / "run")
    assert niso("run", "toy", "--method", "niso", "--out", tmp_path / "run").status == 0


class Odd(LeastSquares):
    """Each of its parts is changed by a test."""


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("part", "function", "message"),
    [
        ("solve", lambda self, a, b: a[0] @ b[0].mT, r"Odd\.solve must give a tensor \(4, \d+, \d+\) for .*not "),
        ("solve", lambda self, a, b: a @ b, r"Odd\.solve fails on .* and .*: RuntimeError: "),
        ("solve", lambda self, a, b: torch.nan * a @ b.mT, r"Odd\.solve gives what is not finite"),
        (
            "solve",
            lambda self, a, b: (a @ b.mT).double(),
            r"Odd\.solve must give torch.float32 for coefficients of torch.float32, not torch.float64",
        ),
        ("solve", lambda self, a, b: a @ b.zero_().mT, r"Odd\.solve changes what it gets"),
        ("encode", lambda self, x: self.model.encode(x.neg_()), r"Odd\.encode changes what it gets"),
        ("decode", lambda self, a: self.model.decode(a.neg_()), r"Odd\.decode changes what it gets"),
        ("decode", lambda self, a: self.model.decode(a)[..., :1], r"Odd\.decode must give a tensor \(4, 12, 12\) for"),
        ("encode", lambda self, x: x.flatten(1), r"Odd\.encode must give a tensor \(4, …, …\) for .*"),
        ("encode", lambda self, x: None, r"Odd\.encode must give a tensor .*, not NoneType"),
    ],
)
def test_what_a_method_gives_is_tried_before_training(refused, tmp_path, monkeypatch, part, function, message):
    monkeypatch.setitem(METHODS, "odd", f"{__name__}.Odd")
    monkeypatch.setattr(Odd, part, function)
    line = refused("run", "toy", "--method", "odd", "--out", tmp_path / "run")
    assert re.search(message, line), line
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(Experiment, "try_first", lambda *_: None)
    if part == "decode" and "give" in message:  # a difference of these has a shape
        with pytest.raises(TypeError, match=r"Odd\.decode must give observations \(.*, 12, 12\), not \(.*, 12, 1\)"):
            main(["run", "toy", "--method", "odd", "--out", str(tmp_path / "run")])


@pytest.mark.usefixtures("registered")
def test_maps_that_are_not_orthogonal_are_told(niso, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "odd", f"{__name__}.Odd")
    for isometric in (False, True):
        monkeypatch.setattr(Odd, "isometric", isometric)
        status, _, err = niso("run", "toy", "--method", "odd", "--out", tmp_path / f"{isometric}")
        assert status == 0 and ("! maps of Odd are not orthogonal" in err) == isometric and "other pairs" not in err


@pytest.mark.usefixtures("registered")
def test_maps_that_depend_on_other_pairs_are_told(niso, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "odd", f"{__name__}.Odd")
    solve = LeastSquares.solve
    monkeypatch.setattr(Odd, "solve", lambda self, a, b: solve(self, a, b).mean(0).expand(len(a), -1, -1))
    status, _, err = niso("run", "toy", "--method", "odd", "--out", tmp_path / "run")
    assert status == 0 and "! maps of Odd depend on the other pairs of their batch" in err


class Flat(SingularValues):
    """Of the coefficients as they are."""

    @classmethod
    def make(cls, examples, classes, config, eigenvalues):
        return MLP(examples[0].numel(), classes, config.mlp)


@pytest.mark.usefixtures("registered")
def test_heads_that_maps_change_are_told(capsys, monkeypatch):
    monkeypatch.setitem(HEADS, "flat", f"{__name__}.Flat")
    networks = Networks(nn.Linear(3, 2), nn.Linear(2, 3), (1, 12), 2)
    for name, told in (("singular-values", False), ("flat", True)):
        config = ClassifierConfig(classifier=name, rank=4)
        try_head(METHODS.find("niso")(config, networks), config, torch.randn(5, 12, 3), 2)
        assert ("! scores of classifier flat: Flat change by" in capsys.readouterr().err) == told
    try_head(METHODS.find("least-squares")(config, networks), config, torch.randn(5, 12, 3), 2)
    assert not capsys.readouterr().err  # it promises no invariants


class FlatOfOperator(Flat):
    of_operator = True


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("rank", [1, 4])
def test_heads_of_the_operator_that_signs_of_eigenfunctions_change_are_told(capsys, monkeypatch, rank):
    """Those of niso, under names that are not niso's, pass."""
    heads = {name: where for name, where in HEADS.own.items() if HEADS.find(name).of_operator}
    assert len(heads) == 2
    networks = Networks(nn.Linear(3, 2), nn.Linear(2, 3), (1, 12), 2)
    for name, where in {**heads, "flat": f"{__name__}.FlatOfOperator"}.items():
        monkeypatch.setitem(HEADS, f"own-{name}", where)
        config = ClassifierConfig(classifier=f"own-{name}", rank=rank)
        try_head(METHODS.find("niso")(config, networks), config, torch.randn(5, 12, 3), 2)
        told = re.search("scores of .*Flat.* change by .* under other signs of eigenfunctions", capsys.readouterr().err)
        assert bool(told) == (name == "flat")


class Eight(Colours):
    """One number short."""

    def numbers(self, first, second):
        return super().numbers(first, second)[:, :8]


class Lost(Colours):
    def numbers(self, first, second):
        return self.missing(first)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Eight, r"Eight\.numbers must give 9 numbers of each pair, here \(3, 9\), not .*8\)"),
        (Lost, "Lost does not take frames"),
    ],
)
def test_baselines_for_poses_are_tried_before_training(refused, tmp_path, monkeypatch, kind, message):
    monkeypatch.setitem(BASELINES, "wrong", f"{__name__}.{kind.__name__}")
    line = refused("run", "pose", "--method", "wrong", "--size", 8 if kind is Eight else 16, "--out", tmp_path / "run")
    assert re.search(message, line) and not (tmp_path / "run").exists()


def test_niso_itself_makes_no_such_mistake():
    for registry in (METHODS, HEADS, SPECTRA, BASELINES):
        assert not any(part.mistake() for part in registry.found().values())


def test_trials_leave_the_random_generator_and_modes_as_they_are():
    method = METHODS.find("niso")(ClassifierConfig(rank=4), Networks(nn.Linear(3, 2), nn.Linear(2, 3), (1, 12), 2))
    method.model.encoder.eval()  # a part that the user has frozen
    before, modes = torch.get_rng_state(), [part.training for part in method.model.modules()]
    method.check_objective()
    x = torch.rand(9, 12, 3, generator=torch.Generator().manual_seed(0))
    try_head(method, ClassifierConfig(), x, 5)
    try_method(method, method.objective(), (x, x.flip(1)))
    assert torch.equal(torch.get_rng_state(), before)
    assert modes == [part.training for part in method.model.modules()] and not all(modes)


def keyword(*, data_dir):
    return bars()


def two(first, second):
    return bars()


@pytest.mark.parametrize("function", [keyword, two])
def test_data_sets_of_other_arguments_are_named(monkeypatch, function):
    monkeypatch.setitem(DIGITS, "wrong", f"{__name__}.{function.__name__}")
    with pytest.raises(InputError, match=rf"digits wrong: .*\.{function.__name__} must be a function of the data"):
        read_digits("wrong", None)


class OfMethod(QuarterTurns):
    def of(self, kind, shape):
        return self


class OfBroken(QuarterTurns):
    @classmethod
    def of(cls, kind, shape):
        raise KeyError(kind)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bars", "bars is no class: register one"),
        ("OfMethod", r"OfMethod\.of must be a classmethod of \(kind, shape\)"),
        ("OfBroken", "does not fit images .*: KeyError: 'images'"),
    ],
)
def test_actions_of_another_form_are_named(monkeypatch, name, message):
    monkeypatch.setitem(ACTIONS, "wrong", f"{__name__}.{name}")
    with pytest.raises(InputError, match=message):
        make_action("--action", "wrong", "images", (1, 4, 4))
