"""`niso.load` and `Fitted.save`: what was trained can be used again, bit for bit, without data and without pickle."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import niso
from niso.data.digits.mnist import embedded, pad
from niso.errors import CheckpointError, InputError
from niso.experiments import EXPERIMENTS
from niso.training import checkpoint

EXAMPLES = {
    "torus": (16, 9),
    "sphere": (16, 9),
    "homnist": (1, 24, 24),
    "shapes": (2, 8, 16),
    "pose": (3, 8, 8),
    "pairs": (1, 8, 8),
}


def observed(shape, count=3):
    return np.random.default_rng(0).integers(256, size=(count, *shape)).astype(np.float32)


def same(first, second, x):
    a = first.encode(x)
    np.testing.assert_array_equal(a, second.encode(x))
    np.testing.assert_array_equal(first.map(x, x[::-1]), second.map(x, x[::-1]))
    np.testing.assert_array_equal(first.decode(a), second.decode(a))


@pytest.mark.parametrize("experiment", [name for name in EXPERIMENTS if name != "descriptors"])
def test_a_run_of_any_experiment_is_loaded_saved_and_loaded_again(finished_once, tmp_path, experiment, monkeypatch):
    if experiment not in EXAMPLES:
        pytest.skip(f"the shape of an observation of {experiment} is not in EXAMPLES")
    run = finished_once(experiment)
    monkeypatch.setattr(EXPERIMENTS.find(experiment), "build", None)  # no data is read
    for name in ("pickle.load", "pickle.loads", "torch.load"):  # and nothing unpickled
        monkeypatch.setattr(name, None)
    model, x = niso.load(run), observed(EXAMPLES[experiment])
    x = x / 100 if experiment == "shapes" else x  # pixels elsewhere; torus and sphere are linear, in any units
    a = model.encode(x)
    assert model.run == run and model.metrics == json.loads((run / "metrics.json").read_text())
    assert model.decode(a).shape == model.transport(x, model.map(x, x[::-1])).shape == x.shape
    assert model.invariants(x).ndim == 2 and model.spectrum.eigenvalues.shape == (a.shape[1],)
    stored = checkpoint.load(run / "checkpoints" / "pretrain.safetensors")[0]
    for name, tensor in model.method.model.state_dict().items():
        assert torch.equal(tensor, stored[f"model.model.{name}"]), name
    assert model.save(tmp_path / "model") == tmp_path / "model"
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == ["config.json", "model.safetensors"]
    again = niso.load(tmp_path / "model")
    same(model, again, x)
    same(model, niso.load(run / "weights.safetensors"), x)
    assert again.metrics == model.metrics and again.run is None and again.diagnosis == model.diagnosis


def test_what_has_no_model_of_single_observations_is_refused(finished_once, monkeypatch):
    run = finished_once("descriptors")
    monkeypatch.setattr(EXPERIMENTS.find("descriptors"), "build", None)  # before any data is read
    with pytest.raises(InputError, match="runs of descriptors are not loaded: each of its surfaces has"):
        niso.load(run)


def test_maps_of_shapes_are_scaled_as_in_training(finished_once, make_tiny):
    experiment, model = make_tiny("shapes"), niso.load(finished_once("shapes"))
    shape = torch.tensor([0, 1])
    raw = torch.from_numpy(np.stack([experiment.shapes.maps(0)[0], experiment.shapes.maps(1)[0]]))
    torch.testing.assert_close(model.scaled(raw), experiment.maps(shape, torch.zeros_like(shape)), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("experiment", "method"), [("pairs", "autoencoder"), ("homnist", "nft")])
def test_other_methods(finished_once, experiment, method):
    model, x = niso.load(finished_once(experiment, method)), observed(EXAMPLES[experiment])
    assert model.decode(model.encode(x)).shape == x.shape and model.spectrum is None


def test_nft_of_shapes_keeps_its_diagonalisation_and_not_what_the_head_changed(finished_once):
    run = finished_once("shapes", "nft")
    model = niso.load(run).method.model
    before, trained = (load_file(run / "checkpoints" / f"{phase}.safetensors") for phase in ("pretrain", "head"))
    for name, value in model.state_dict().items():
        expected = trained["model.backbone.basis"] if name == "basis" else before[f"model.model.{name}"]
        assert torch.equal(value, expected), name
    assert not torch.equal(model.basis, torch.eye(len(model.basis)))


def test_a_run_in_double_precision(finished_once):
    model = niso.load(finished_once("pairs", precision="64-true"))
    assert model.encode(observed(EXAMPLES["pairs"])).dtype == np.float64


def test_a_run_that_lost_its_facts_is_refused(finished_once, tmp_path):
    run = shutil.copytree(finished_once("homnist"), tmp_path / "run")
    (run / "run.json").unlink()
    with pytest.raises(InputError, match="does not say how its model is built"):
        niso.load(run)


@pytest.fixture(scope="module")
def fitted():
    random = np.random.default_rng(0)
    x = random.standard_normal((40, 16, 2)).astype(np.float32)
    few = {"steps": 3, "rank": 4, "batch_size": 4, "evaluation_pairs": 8, "progress": False}
    return niso.fit(x, np.roll(x, 3, 1), speed="exact", **few), x


def test_a_round_trip_is_bit_equal_and_leaves_the_generators_alone(fitted, tmp_path):
    model, x = fitted
    model.save(tmp_path / "model")
    state = torch.get_rng_state()
    again = niso.load(str(tmp_path / "model"))
    assert torch.equal(torch.get_rng_state(), state)
    same(model, again, x)
    assert again.diagnosis == model.diagnosis and again.settings == model.settings
    same(model, niso.load(again.save(tmp_path / "second")), x)
    with pytest.raises(InputError, match="is not an empty folder"):
        model.save(tmp_path / "model")


def test_networks_in_half_precision(finished_once, tmp_path):
    model, x = niso.load(finished_once("homnist")), observed(EXAMPLES["homnist"])
    again = niso.load(model.save(tmp_path / "half", half=True))
    sizes = [
        (folder / "model.safetensors").stat().st_size for folder in (tmp_path / "half", model.save(tmp_path / "m"))
    ]
    networks = (*model.method.model.encoder.parameters(), *model.method.model.decoder.parameters())
    assert sizes[1] - sizes[0] > 0.9 * 2 * sum(weights.numel() for weights in networks)  # two bytes of four
    assert {tensor.dtype for tensor in again.method.model.state_dict().values()} == {torch.float32}
    for part, other in zip(model.spectrum, again.spectrum, strict=True):
        assert torch.equal(part, other)
    wide, other, *_ = (weights for weights in model.method.model.encoder.parameters() if weights.ndim > 1)
    wide.data.view(-1)[0] = 1e5  # more than half precision holds, and less in the next ones
    other.data.fill_(1e-9)
    extreme = niso.load(model.save(tmp_path / "extreme", half=True)).method.model.encoder.parameters()
    wide, other, *_ = (weights for weights in extreme if weights.ndim > 1)
    assert wide.max() == 1e5 and other.max().item() == pytest.approx(1e-9)
    model = niso.load(tmp_path / "m")
    a = model.encode(x)
    np.testing.assert_allclose(again.encode(x), a, rtol=0, atol=5e-3 * abs(a).max())
    np.testing.assert_array_equal(again.save(tmp_path / "n") and niso.load(tmp_path / "n").encode(x), again.encode(x))


def test_observations_in_other_units_are_refused(fitted, finished_once):
    model, x = fitted
    model.encode(1.4 * x)
    with pytest.warns(UserWarning, match="every observation is the same number all over"):
        model.encode(0 * x)
    for wrong in (255 * x, x + 20, (100 * x).astype(np.int16)):
        with pytest.raises(ValueError, match=r"observations lie between .* those trained on between -.*the same units"):
            model.encode(wrong)
        with pytest.raises(ValueError, match="same units"):
            model.map(x, torch.from_numpy(wrong).numpy())
    with pytest.warns(UserWarning, match=r"and those trained on between -.*: are they in the same units\?"):
        model.encode(x / 1000)
    images = niso.load(finished_once("homnist"))
    assert images.units.mean == pytest.approx([pad(embedded().train_images).double().mean().item()], rel=0.02)
    black = np.zeros((1, 1, 24, 24))
    for right in (black, black + 1 / 3 + 2, (black + 1).astype(np.uint8)):  # pixels may be dark
        images.encode(right)
    for wrong in (black + 0.5, black - 1, black + 1000):
        with pytest.raises(ValueError, match="trained on between 0 and 255: bring them to the same units"):
            images.encode(wrong)


@pytest.mark.parametrize("given", [np.asarray, torch.from_numpy])
def test_negatives_and_blank_observations_are_named(given, recwarn):
    model = niso.load("digits")
    x = embedded_digits(9)
    model.encode(given(x)), model.encode(given(255 - x[:7])), model.encode(given(0 * x[:7]))
    assert not recwarn
    words = r"look like negatives of those trained on \(their mean is 2\d\d, and there 16\.4\): .* give 255 − x"
    with pytest.warns(UserWarning, match=words):
        model.encode(given(255 - x))
    with pytest.warns(UserWarning, match="every observation is the same number all over"):
        model.encode(given(0 * x + np.arange(9, dtype=np.uint8)[:, None, None, None]))


def embedded_digits(count):
    """Digits of scikit-learn as MNIST has them: 28×28 pixels, padded to 40×40, white on black."""
    small = embedded().test_images[:count, None].float()
    large = nn.functional.interpolate(small, (28, 28), mode="bilinear").round().byte()
    return nn.functional.pad(large, (6, 6, 6, 6)).numpy()


@pytest.mark.parametrize("signed", [False, True])
def test_negatives_are_told_by_the_means_of_channels(signed, tmp_path):
    """Of channels with several ranges, too, and only where the data are far from their negatives."""
    random = np.random.default_rng(0)
    x = random.random((40, 2, 8, 8)).astype(np.float32)
    x = (x - 0.5 if signed else x**4) * np.array([1, 1000], np.float32)[:, None, None]
    few = {"steps": 3, "rank": 4, "batch_size": 4, "evaluation_pairs": 8, "progress": False}
    niso.fit(x, transform="rotation", latent_channels=4, speed="exact", **few).save(tmp_path / "model")
    model = niso.load(tmp_path / "model")
    np.testing.assert_allclose(model.units.mean, x.mean((0, 2, 3)), rtol=0.1, atol=20)
    model.encode(x)
    negative = x.max((0, 2, 3), keepdims=True) - x
    if signed:
        model.encode(-x)
    else:
        with pytest.warns(UserWarning, match="look like negatives .*: if they are, invert them"):
            model.encode(negative)


def test_other_units_inside_of_the_range_are_asked_about(fitted, tmp_path, recwarn):
    model, x = fitted
    model.encode(x), model.encode(x[:8]), model.encode(x[:7] + 2), model.encode(0.9 * x)
    assert not recwarn
    file = model.save(tmp_path / "model") / "config.json"
    for wrong in (x / 10 + 0.5, x + 2, torch.from_numpy(x / 10)):
        with pytest.warns(UserWarning, match=r"a mean of .* and a deviation of .* those trained on .* same units\?"):
            model.encode(wrong)
    np.save(tmp_path / "x.npy", x + 2)
    with pytest.warns(UserWarning, match=r"same units\?"):
        niso.load(tmp_path / "model").read(tmp_path / "x.npy")
    config = json.loads(file.read_text())
    assert len(config["facts"]["data"].pop("spread")) == 2
    file.write_text(json.dumps(config))  # as models saved before
    niso.load(tmp_path / "model").encode(x + 2)


@pytest.mark.parametrize("kind", ["points", "images"])
def test_a_small_channel_in_other_units_is_refused(tmp_path, kind):
    """Temperatures beside pressures in pascals, which are far larger."""

    def shaped(values):
        return values if kind == "points" else values.reshape(40, 4, 4, 2).transpose(0, 3, 1, 2)

    celsius = np.random.default_rng(0).standard_normal((40, 16, 2)) * [10, 800] + [15, 101325]
    x, tx = shaped(celsius), shaped(celsius[:, ::-1])
    steps = {"steps": 3, "rank": 4, "batch_size": 4, "evaluation_pairs": 8}
    model = niso.load(niso.fit(x, tx, kind=kind, progress=False, **steps).save(tmp_path / "model"))
    spiky = celsius.copy()
    spiky[0, 0, 0] += 100  # a single value may be far off
    model.encode(shaped(spiky))
    for wrong, channel in ((celsius + np.array([273.15, 0]), 0), (celsius / [1, 100], 1)):
        with pytest.raises(ValueError, match=rf"channel {channel} of the observations has a mean of .* the same units"):
            model.encode(shaped(wrong))
        np.save(tmp_path / "x.npy", shaped(wrong))
        with pytest.raises(InputError, match=rf"x\.npy: channel {channel} of the observations has a mean of"):
            model.read(tmp_path / "x.npy")


def test_networks_of_the_user_must_be_given(tmp_path):
    random = np.random.default_rng(0)
    x = random.standard_normal((40, 16, 2)).astype(np.float32)
    model = niso.fit(
        x, x, encoder=nn.Linear(2, 6), decoder=nn.Linear(6, 2), steps=3, rank=4, batch_size=4, progress=False
    )
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match=r"networks of your own: give niso\.load encoder and decoder"):
        niso.load(tmp_path / "model")
    same(model, niso.load(tmp_path / "model", encoder=nn.Linear(2, 6), decoder=nn.Linear(6, 2)), x)
    with pytest.raises(CheckpointError, match=r"is of another model.*give the encoder and decoder that it was"):
        niso.load(tmp_path / "model", encoder=nn.Linear(2, 7), decoder=nn.Linear(7, 2))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("config.json", lambda text: text[:-40], r"cannot read .*config\.json"),
        ("config.json", lambda text: "[]", "is not a model that niso saved"),
        ("config.json", lambda text: text.replace('"rank": 4', '"rank": 400'), "exceed|points|rank"),
        ("config.json", lambda text: text.replace('"scaling"', '"scalings"'), "does not say how its model is built"),
        ("config.json", lambda text: text.replace('"identity"', '"pointwise"'), "does not hold the weights"),
        ("model.safetensors", lambda text: text[:100], "model.safetensors is damaged"),
        ("model.safetensors", None, "has no model.safetensors"),
    ],
)
def test_a_damaged_model_is_refused_in_one_line(fitted, tmp_path, name, change, message):
    file = fitted[0].save(tmp_path / "model") / name
    if change is None:
        file.unlink()
    else:
        file.write_text(change(file.read_text(encoding="latin1")), encoding="latin1")
    with pytest.raises((InputError, CheckpointError), match=message) as refused:
        niso.load(tmp_path / "model")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.round().to(torch.int64), "holds torch.int64, no weights"),
        (lambda weights: weights.to(torch.complex64), "holds torch.complex64, no weights"),
        (lambda weights: weights * torch.nan, "values that are not finite"),
    ],
)
def test_weights_that_are_none_are_refused(fitted, tmp_path, change, message):
    file = fitted[0].save(tmp_path / "model") / "model.safetensors"
    tensors = {name: change(weights) for name, weights in load_file(file).items()}
    save_file(tensors, file)
    with pytest.raises(CheckpointError, match=message):
        niso.load(tmp_path / "model")


@pytest.mark.parametrize(
    "units",
    [
        {"scaling": {"offset": [0.0], "scale": [1.0, 1.0, 1.0]}},
        {"scaling": {"offset": [], "scale": [1.0]}},
        {"scaling": {"offset": [0.0], "scale": [0.0]}},
        {"scaling": {"offset": [float("nan")], "scale": [1.0]}},
        {"scaling": {"offset": [0.0], "scale": [float("inf")]}},
        {"range": [1.0, -1.0]},
        {"range": [float("nan"), 1.0]},
        {"ranges": [[0.0], [1.0]]},
        {"ranges": [[0.0, 2.0], [1.0, 1.0]]},
        {"mean": [float("nan"), 0.0]},
        {"mean": [0.0]},
        {"spread": [{"mean": [0.0], "deviation": [1.0], "within": [1.0]}]},
        {"spread": [{"mean": [0.0] * 2, "deviation": [float("inf")] * 2, "within": [1.0] * 2}]},
        {"spread": [{"mean": [0.0] * 2}]},
        {"clip": -1.0},
        {"clip": "all"},
    ],
)
def test_units_that_make_no_numbers_are_refused(fitted, tmp_path, units):
    file = fitted[0].save(tmp_path / "model") / "config.json"
    content = json.loads(file.read_text())
    content["facts"]["data"].update(units)
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match="does not say how its model is built"):
        niso.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_saved_model_is_loaded_by_either_of_its_files(fitted, tmp_path, name):
    folder = fitted[0].save(tmp_path / "model")
    assert niso.load(folder / name).facts == niso.load(folder).facts


def test_a_model_that_cannot_be_written_leaves_nothing(fitted, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(InputError, match=r"cannot write to .*model .No space left"):
        patch.setattr("niso.experiments.saved.write_atomically", full)
        fitted[0].save(tmp_path / "model")
    fitted[0].save(tmp_path / "model")  # the folder is free


def test_what_is_no_model_is_refused(tmp_path, fitted):
    for path, message in ((tmp_path, "neither config.yaml nor config.json"), (tmp_path / "x", "no such folder")):
        with pytest.raises(InputError, match=message):
            niso.load(path)
    with pytest.raises(InputError, match="no model is named: give a run folder"):
        niso.load("")
    with pytest.raises(InputError, match="leave encoder and decoder out"):
        niso.load(fitted[0].save(tmp_path / "m"), encoder=nn.Identity(), decoder=nn.Identity())
