"""Frozen features of models that transformers stores, tiny and untrained here."""

import json
import math
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from niso import networks
from niso.errors import InputError
from niso.networks.pretrained import KINDS, PretrainedFeatures, load_pretrained

WEIGHTS, PREPROCESSING = "model.safetensors", "preprocessor_config.json"


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def folder(write_pretrained, tmp_path, kind) -> Path:
    return write_pretrained(tmp_path / "model", kind)


def test_tokens_are_those_of_the_models_own_last_layer(folder, kind):
    transformers = pytest.importorskip("transformers")
    features = load_pretrained(str(folder), kind)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    images = torch.rand(3, 3, 28, 28)
    mean, std = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.3, 0.4])
    with torch.no_grad():
        tokens = model((images - mean[:, None, None]) / std[:, None, None]).last_hidden_state
    found = features(2 * images - 1)
    assert found.shape == (3, features.tokens, features.channels) == (3, 5, 8)
    torch.testing.assert_close(found, torch.nn.functional.layer_norm(tokens, (8,)), atol=1e-4, rtol=1e-4)
    assert not found.requires_grad and not any(parameter.requires_grad for parameter in features.parameters())


def test_nothing_in_it_is_trained(folder, kind):
    features = load_pretrained(str(folder), kind).train()
    assert not any(module.training for module in features.modules())
    images = torch.rand(2, 3, 28, 28)
    assert torch.equal(features(images), features(images))


def test_another_precision_gives_the_same(folder, kind, dtype):
    features, images = load_pretrained(str(folder), kind), torch.rand(2, 3, 28, 28, dtype=dtype)
    assert features(images).dtype == torch.float32
    torch.testing.assert_close(features(images), features(images.float()))


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ({"size": 14}, (14, 14)),
        ({"size": {"shortest_edge": 42}}, (42, 42)),
        ({"size": {"shortest_edge": 42}, "crop_size": {"height": 28, "width": 14}, "do_center_crop": True}, (28, 14)),
        ({"size": {"shortest_edge": 42}, "crop_size": 28, "do_center_crop": False}, (42, 42)),
    ],
)
def test_images_get_the_size_that_the_model_sees(write_pretrained, tmp_path, changes, size):
    features = load_pretrained(str(write_pretrained(tmp_path / "model", "dinov2", **changes)), "dinov2")
    assert features.size == size
    assert features.tokens == 1 + size[0] * size[1] // 14**2
    plain = torch.full((1, 3, 9, 9), 0.3)
    torch.testing.assert_close(features(plain), features(torch.full((1, 3, *size), 0.3)), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"do_normalize": False}, {"image_mean": [0, 0, 0], "image_std": [1, 1, 1]}),
        ({"do_rescale": False}, {"rescale_factor": 1.0}),
    ],
)
def test_what_is_switched_off_is_not_done(write_pretrained, tmp_path, changes, same):
    images = torch.rand(1, 3, 28, 28)
    one, other = (
        load_pretrained(str(write_pretrained(tmp_path / f"model{number}", "dinov2", **own)), "dinov2")
        for number, own in enumerate((changes, same))
    )
    torch.testing.assert_close(one(images), other(images))


class Pixels(nn.Module):
    """A model whose tokens are the pixels that it gets."""

    def forward(self, pixel_values):
        self.seen = pixel_values
        return SimpleNamespace(last_hidden_state=pixel_values.flatten(2).mT)


@pytest.mark.parametrize(
    ("changes", "size", "offset", "scale"),
    [
        ({}, (4, 6), 0.25, 0.5),
        ({"do_normalize": False}, (4, 6), 0.0, 1.0),
        ({"do_rescale": False}, (4, 6), 0.25 / 255, 0.5 / 255),
        ({"rescale_factor": 2 / 255}, (4, 6), 0.125, 0.25),
        ({"do_center_crop": True}, (5, 5), 0.25, 0.5),
    ],
)
def test_pixels_are_what_the_preprocessing_says(changes, size, offset, scale):
    model = Pixels()
    preprocessing = {
        "size": {"height": 4, "width": 6},
        "crop_size": 5,
        "image_mean": [0.25] * 3,
        "image_std": [0.5] * 3,
    }
    features = PretrainedFeatures(model, preprocessing | changes)
    assert (features.size, features.tokens, features.channels) == (size, size[0] * size[1], 3)
    images = torch.rand(2, 3, *size)
    features(2 * images - 1)
    torch.testing.assert_close(model.seen, (images - offset) / scale)
    features(2 * (torch.arange(6).reshape(1, 1, 2, 3) % 2).expand(1, 3, 2, 3) - 1.0)  # resized, it overshoots
    shown = model.seen * scale + offset
    assert shown.min() > -1e-4 and shown.max() < 1 + 1e-4


def test_features_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        PretrainedFeatures(Pixels(), {"size": 3, "image_mean": [0.0] * 3, "image_std": [math.nan] * 3})


def without_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors.pop(next(name for name in sorted(tensors) if "layer.1" in name))
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def not_finite(folder: Path) -> None:
    tensors = {name: torch.full_like(tensor, torch.nan) for name, tensor in load_file(folder / WEIGHTS).items()}
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


def cut_off(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:1000])


def of_another_size(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 16}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without_a_tensor, "its weights lack 1 of the model's tensors"),
        (not_finite, "its features are not finite"),
        (pickled, "no file named model.safetensors"),
        (cut_off, "cannot load a dinov2 model"),
        (of_another_size, "cannot load a dinov2 model"),
        (lambda folder: (folder / PREPROCESSING).unlink(), PREPROCESSING),
        (lambda folder: (folder / PREPROCESSING).write_text("{"), "cannot load a dinov2 model"),
        (lambda folder: (folder / PREPROCESSING).write_text("[]"), "cannot load a dinov2 model"),
        (lambda folder: (folder / PREPROCESSING).write_text("{}"), "'image_mean' is missing"),
        (lambda folder: (folder / PREPROCESSING).write_text('{"do_normalize": false, "size": 3}'), "cannot load"),
        (lambda folder: (folder / "config.json").write_text("x"), "not a valid JSON file"),
        (lambda folder: (folder / "config.json").unlink(), "cannot load a dinov2 model"),
    ],
)
def test_damaged_folders_are_refused(write_pretrained, tmp_path, damage, message):
    folder = write_pretrained(tmp_path / "model", "dinov2")
    damage(folder)
    with pytest.raises(InputError, match=message) as error:
        load_pretrained(str(folder), "dinov2")
    assert str(folder) in str(error.value) and "\n" not in str(error.value)
    assert "must hold config.json, preprocessor_config.json and model.safetensors" in str(error.value)


def test_a_model_of_another_kind_is_refused(write_pretrained, tmp_path):
    with pytest.raises(InputError, match="is a model of type beit, not dinov2"):
        load_pretrained(str(write_pretrained(tmp_path / "model", "beit")), "dinov2")


@pytest.mark.parametrize("absolute", [False, True])
def test_nothing_is_fetched_unless_asked_for(absolute, monkeypatch, tmp_path):
    pytest.importorskip("transformers")
    name = str(tmp_path / "nowhere") if absolute else "nowhere/at-all"
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("it goes to the network"))
    with pytest.raises(InputError, match=f"{name} is no folder, .* or fetch it by --download"):
        load_pretrained(name, "dinov2")


def test_without_transformers_its_installation_is_named(monkeypatch):
    """By the module as it is imported there: anew."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "niso.networks.pretrained")
    monkeypatch.setattr(networks, "pretrained", networks.pretrained)  # put back what the import below sets
    with pytest.raises(InputError, match=r"pip install 'transformers>=4\.45'"):
        import_module("niso.networks.pretrained").load_pretrained("model", "beit")
