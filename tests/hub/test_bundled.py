"""Models that come with niso: each is loaded, and its main metric is computed again on a small sample."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import niso
from niso.data.digits.mnist import embedded, pad
from niso.data.pairs.pictures import shipped_photographs
from niso.data.pairs.reading import Reading
from niso.data.shapes import family
from niso.data.shapes.preparation import prepare_shape
from niso.data.shapes.sources import Source
from niso.data.video.clips import clips
from niso.errors import InputError
from niso.experiments import EXPERIMENTS, saved
from niso.experiments.pose import evaluation
from niso.experiments.pose.inference import load_reader
from niso.experiments.settings import Settings
from niso.geometry import trajectories
from niso.geometry.domains import sphere, torus
from niso.geometry.homographies import Homographies
from niso.geometry.make import make_action
from niso.geometry.mesh.files import write_off
from niso.geometry.mobius import MobiusTransformations
from niso.hub import bundled
from niso.methods.evaluation.pairs import evaluate_pairs
from niso.training import checkpoint
from tools import bundle

NAMES = bundled.names()
ONE = torch.ones(2, 2)


def relative_map_error(fitted, x, action):
    """Of maps solved from the next observation under the same transformation; x in the units of a user."""
    x = fitted.scaled(x)
    t = action.sample(len(x), torch.Generator().manual_seed(0))
    y = x.roll(1, 0)
    return evaluate_pairs(fitted.method, [(x, action.act(x, t), y, action.act(y, t))]).metrics["relative_map_error"]


def energy(fitted, truth):
    spectrum = fitted.spectrum
    return niso.metrics.eigenspace_energy(*spectrum[:2], truth.functions, truth.spaces).amax(-1).mean().item()


def of_torus(fitted, folder, tmp_path):
    return energy(fitted, torus.harmonics(fitted.settings.config.size, fitted.settings.config.bandwidth))


def of_sphere(fitted, folder, tmp_path):
    return energy(fitted, sphere.harmonics(fitted.settings.config.size, fitted.settings.config.band))


def of_homnist(fitted, folder, tmp_path):
    """scikit-learn's digits in place of MNIST's, which are not here: as large, 20×20 pixels, but blurred."""
    small = embedded().test_images[:64, None].float()
    x = pad(nn.functional.interpolate(small, (20, 20), mode="bilinear").round().byte()[:, 0], 10)[:, None]
    return relative_map_error(fitted, x, Homographies())


def of_pairs(fitted, folder, tmp_path):
    """A few crops of all photographs, those that were trained on among them."""
    table = shipped_photographs(Reading(crops=60), fitted.shape[-1])
    action = make_action("--transform", fitted.settings.config.reading.transform, table.kind, table.shape)
    return relative_map_error(fitted, torch.from_numpy(table.views["x"]), action)


def of_shapes(fitted, folder, tmp_path):
    """Shapes of a number that no run has drawn."""
    maps = []
    for name in list(family.PLANS)[:3]:
        write_off(tmp_path / f"{name}.off", family.shape(name, 100, vertices=fitted.settings.config.vertices))
        prepared = prepare_shape(Source(f"{name}/100", tmp_path / f"{name}.off"), fitted.settings.config.preparation)
        maps.append(torch.from_numpy(prepared[0][0]))
    action = MobiusTransformations(fitted.settings.config.mobius, fitted.facts["data"]["layout"])
    return relative_map_error(fitted, torch.stack(maps), action)


def of_pose(fitted, folder, tmp_path):
    """Two short clips, one of each motion, like those that the record is of."""
    reader, config = load_reader(folder), fitted.settings.config
    errors = []
    for clip in clips(2, 24, config.size, held_out=True):
        encoded = reader.predictor.features(clip.images.float() / 127.5 - 1)
        motions = evaluation.between(reader.predictor, encoded, {1: 1})[1][1].detach()
        errors.append(trajectories.errors(motions, trajectories.subsample(clip.poses, 1)).ate_normalised)
    return sum(errors) / len(errors)


EXACT, SAMPLED = 1.001, 2.0
SAMPLES = {
    "torus": (of_torus, EXACT),
    "sphere": (of_sphere, EXACT),
    "homnist": (of_homnist, 3.0),  # other digits
    "pairs": (of_pairs, 3.0),  # photographs that were trained on
    "shapes": (of_shapes, 3.0),  # three shapes
    "pose": (of_pose, SAMPLED),
}
"""How an experiment's main metric is computed again, and the factor by which it may differ from the record: next to
nothing where no data is drawn."""


@pytest.mark.parametrize("name", NAMES)
def test_its_main_metric_is_that_of_its_record(name, tmp_path):
    model, fitted = bundled.find(name), niso.load(name)
    experiment = model.record.kind[0]
    key = EXPERIMENTS.find(experiment).model_metric
    compute, factor = SAMPLES[experiment]
    value, recorded = compute(fitted, model.folder, tmp_path), model.record.metrics[key]
    assert recorded / factor <= value <= recorded * factor, (key, value, recorded)


@pytest.mark.parametrize("name", NAMES)
def test_its_files_go_together_and_name_no_place(name):
    model = bundled.find(name)
    config, record = (json.loads((model.folder / file).read_text()) for file in ("config.json", "record.json"))
    assert config["metrics"] == record["metrics"]
    if "preparation" in config["facts"]["data"]:  # of shapes that niso made itself
        assert record["settings"]["data_dir"] is None
        assert config["facts"]["data"]["preparation"] == record["settings"]["config"]["preparation"]
    recorded = Settings.load(model.record.settings, model.folder)
    assert niso.load(name).settings.config == recorded.config
    assert f"`{model.metric.split()[0]}`" in model.card and model.about.endswith(".")
    assert sorted(file.name for file in model.folder.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "record.json",
    ]
    assert not [value for value in texts([config, record]) if Path(value).is_absolute()]


def texts(values):
    """All strings in nested values."""
    if isinstance(values, str):
        yield values
    elif isinstance(values, dict | list):
        for value in values.values() if isinstance(values, dict) else values:
            yield from texts(value)


def test_models_are_small():
    sizes = {name: bundled.find(name).size for name in NAMES}
    assert NAMES and max(sizes.values()) <= 2_000_000 and sum(sizes.values()) <= 12_000_000


def test_a_finished_run_becomes_a_model(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(bundled, "MODELS", tmp_path / "models")
    (tmp_path / "models").mkdir()
    for _ in range(2):  # the second in place of the first
        bundle.bundle(finished, "tiny", "Does little.", tmp_path / "models")
    model = bundled.find("tiny")
    assert bundled.names() == ["tiny"] and model.about == "Does little." and model.size < 20_000
    assert "\nlicense: apache-2.0\n" in model.card and ", and record.json, the record of the run" in model.card
    assert niso.load("tiny").metrics == model.record.metrics == niso.load(finished).metrics
    monkeypatch.setattr(bundle, "LARGEST", 100)
    with pytest.raises(InputError, match=r"large would take .* train a smaller one"):
        bundle.bundle(finished, "large", "Does much.", tmp_path / "models")
    assert bundled.names() == ["tiny"]


def test_runs_are_rounded_as_their_models_are_stored(finished, tmp_path, monkeypatch):
    """What half precision does not hold stays as it is, and so does the spectrum."""
    kept = {"model.spectrum.own": ONE / 3, "model.large": 1e6 * ONE, "model.mean": ONE[0] / 3, "optimizer.x": ONE / 3}
    for path in (finished / "checkpoints").glob("*.safetensors"):
        tensors, facts = checkpoint.load(path)
        checkpoint.save(path, {**tensors, **kept, "model.small": ONE / 3}, facts)
    monkeypatch.setattr(bundle.runner, "evaluate", lambda folder: {})
    (path, *_) = (bundle.rounded_run(finished, tmp_path / "rounded") / "checkpoints").glob("*.safetensors")
    rounded = checkpoint.load(path)[0]
    assert all(torch.equal(rounded[name], tensor) for name, tensor in kept.items())
    assert (
        torch.equal(rounded["model.small"], (ONE / 3).half().float()) and saved.halved("small", ONE).dtype == torch.half
    )


def test_a_name_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"neither a run folder nor a saved model: .* did you mean homnist-group"):
        niso.load("homnist-groups")
    (tmp_path / "sweep.yaml").touch()
    with pytest.raises(InputError, match="is a folder of several runs: give one of them"):
        niso.load(tmp_path)
    (tmp_path / NAMES[0]).mkdir()  # a folder of that name which holds no model
    assert niso.load(NAMES[0]).method is not None
