"""`niso.fit` on arrays, tensors and data sets: what it learns, and what can be done with it."""

import copy
import inspect
import json
import math
import pickle
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.sparse import csr_matrix
from torch import nn
from torch.utils.data import DataLoader

import niso
from niso.config import Hardware
from niso.data.pairs.sampling.data import BATCH
from niso.data.pairs.scaling import Scaling
from niso.errors import CheckpointError, InputError, Interrupted
from niso.experiments.classifier import Classifier
from niso.experiments.diagnosis import Finding
from niso.experiments.own import Own
from niso.experiments.pairs.experiment import default_for
from niso.experiments.pairs.networks import check_independence
from niso.export import export
from niso.fitted import find_device
from niso.fitting import _accelerator, _left_alone
from niso.runs import runner
from niso.training import compilation, speed
from niso.training.run import REPORT, Run
from studies import fit as study

FEW = {"steps": 3, "rank": 4, "batch_size": 4, "evaluation_pairs": 16, "progress": False}


def shifted(count=40, length=16, channels=2, seed=0):
    """Signals and the same shifted circularly, each by an offset of its own."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((count, length, channels)).astype(np.float32)
    return x, np.stack([np.roll(one, by, 0) for one, by in zip(x, generator.integers(length, size=count), strict=True)])


@pytest.fixture(scope="module")
def fitted():
    x, tx = shifted()
    return niso.fit(x, tx, **FEW), x, tx


def test_numpy_in_numpy_out(fitted):
    model, x, tx = fitted
    a, tau = model.encode(x), model.map(x, tx)
    assert a.shape == (40, 4, 2) and tau.shape == (40, 4, 4)
    assert all(isinstance(values, np.ndarray) for values in (a, tau, model.decode(a), model.invariants(x)))
    assert model.decode(a).shape == model.transport(x, tau).shape == model.transport(x, tau[:1]).shape == x.shape
    np.testing.assert_allclose(tau @ tau.swapaxes(1, 2), np.broadcast_to(np.eye(4), tau.shape), atol=1e-4)
    np.testing.assert_array_equal(model.solve(a, model.encode(tx)), tau)
    np.testing.assert_allclose(model.invariants(x), model.invariants(x), atol=0)
    assert model.spectrum.eigenfunctions.shape == (16, 4)


def test_tensors_in_tensors_out(fitted):
    model, x, tx = fitted
    a = model.encode(torch.from_numpy(x))
    assert isinstance(a, torch.Tensor) and not a.requires_grad
    np.testing.assert_array_equal(a.numpy(), model.encode(x))
    assert isinstance(model.map(torch.from_numpy(x), torch.from_numpy(tx)), torch.Tensor)


def test_what_is_nearest_is_found(fitted):
    model, x, tx = fitted
    found = model.find(x[:3], x)
    assert found.rows.shape == found.similarity.shape == (3, 5) and isinstance(found.rows, np.ndarray)
    assert found.rows[:, 0].tolist() == [0, 1, 2]  # each by the identity
    np.testing.assert_allclose(found.similarity[:, 0], 1, atol=1e-4)
    assert (np.diff(found.similarity) <= 0).all()
    everything = model.find(torch.from_numpy(tx), x, count=len(x), candidates=1)
    assert isinstance(everything.rows, torch.Tensor) and everything.similarity.amax() <= 1.001
    assert (everything.rows.sort(1).values == torch.arange(len(x))).all()
    for count, message in ((0, "count must be at least 1"), (len(x) + 1, "count must be at most 40, .*, not 41")):
        with pytest.raises(ValueError, match=message):
            model.find(tx, x, count)
    with pytest.raises(ValueError, match="the gallery has one observation: give two or more"):
        model.find(tx, x[:1])
    with pytest.raises(ValueError, match="as those trained on"):
        model.find(tx[:, 1:], x)


def test_it_says_where_invariants_tell_none_apart(fitted, capsys):
    model, x, _ = fitted
    model.find(x, x)
    assert "apart" not in capsys.readouterr().err
    gallery = x[:1] * (1 + 1e-4 * np.arange(40, dtype=np.float32)[:, None, None])
    found = model.find(x[:2], gallery, count=40)
    assert not capsys.readouterr().err  # as many are asked for
    assert (found.similarity >= -1.001).all()
    model.find(x[:2], gallery)
    assert "invariants tell none of the gallery apart: maps from all of it are compared" in capsys.readouterr().err


def test_pairs_that_share_a_transformation_have_one_map(fitted):
    model, x, _ = fitted
    tx = np.roll(x, 3, 1)
    tau = model.map(x, tx, shared=True)
    assert tau.shape == (1, 4, 4)
    np.testing.assert_allclose(tau, model.solve(*map(model.encode, (x, tx)), shared=True))
    own, b = model.map(x, tx), model.encode(tx)

    def error(maps):
        return np.square(maps @ model.encode(x) - b).sum()

    assert error(own) < error(tau) < error(own[:1])  # each fits its own pair; of single ones none is the best for all
    np.testing.assert_allclose(model.map(x[:1], tx[:1], shared=True), own[:1], atol=1e-5)


LABELS = {
    "words": np.array(["cat", "dog", "owl", "rat"])[np.arange(40) % 4],
    "numbers": np.arange(40) % 4 * 3 + 2,
    "whole floats": np.arange(40) % 4 - 1.0,
    "two": np.arange(40) % 2 == 0,
}


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_classes_are_predicted_as_labels_were_given(label, tmp_path):
    x = np.eye(4, 16)[np.unique(label, return_inverse=True)[1]][..., None] * np.ones(2) + 0.1 * shifted()[0]
    x = x * np.linspace(1, 2, 4)[np.unique(label, return_inverse=True)[1], None, None]  # energies that tell classes
    model = niso.fit(x, np.roll(x, 1, 1), label=label, head={"steps": 25}, out=tmp_path / "run", **FEW)
    assert model.classes == tuple(np.unique(label).tolist())
    probable, predicted = model.probabilities(x), model.predict(x)
    np.testing.assert_allclose(probable.sum(1), 1, atol=1e-5)
    assert (predicted == np.unique(label)[probable.argmax(1)]).all()
    assert (predicted == label).mean() > 1.5 / len(model.classes)
    np.testing.assert_array_equal(model.predict(torch.from_numpy(x)), predicted)
    assert model.probabilities(torch.from_numpy(x[:1])).shape == (1, len(model.classes))
    for loaded in (niso.load(tmp_path / "run"), niso.load(model.save(tmp_path / "saved"))):
        assert loaded.classes == model.classes
        np.testing.assert_array_equal(loaded.probabilities(x), probable)


def test_scores_that_are_not_finite_are_no_class(monkeypatch):
    x, tx = shifted()
    model = niso.fit(x, tx, label=np.arange(len(x)) % 2, head={"steps": 2}, **FEW)
    with monkeypatch.context() as patch:
        patch.setattr(model, "classes", (6, 2**63 + 1025))  # which NumPy makes floats of
        assert set(model.predict(x).tolist()) <= {6, 2**63 + 1025}
    monkeypatch.setattr(type(model.classifier.head), "forward", lambda self, a: torch.full((len(a), 2), torch.nan))
    for use in (model.predict, model.probabilities):
        with pytest.raises(InputError, match=r"^the classifier's scores are not finite for 3 of 3 observations: look"):
            use(x[:3])


def test_what_is_not_finite_is_named_by_its_rows(fitted, monkeypatch):
    model, x, tx = fitted
    kind = type(model.method)
    with monkeypatch.context() as patch:
        encode = kind.encode
        patch.setattr(kind, "encode", lambda self, x: encode(self, x).index_fill(0, torch.tensor([1]), torch.nan))
        for use in (model.encode, model.invariants, lambda x: model.map(x, tx[:3]), lambda x: model.find(x, x)):
            with pytest.raises(InputError, match="the encoder gives what is not finite, of observations 1: look"):
                use(x[:3])
    with monkeypatch.context() as patch:
        patch.setattr(kind, "solve", lambda self, a, b: torch.full((len(a), 4, 4), torch.nan))
        with pytest.raises(InputError, match=r"solve gives maps that are not finite, of pairs 0, 1$"):
            model.map(x[:2], tx[:2])


def test_doubts_about_data_are_in_the_diagnosis():
    x, tx = shifted()
    x[7] *= 1e4
    finding = niso.fit(x, tx, **FEW).diagnosis[0]
    assert finding.bad and "row 7 of x holds" in str(finding)


def test_a_method_without_maps_is_named():
    x, tx = shifted()
    few = {key: value for key, value in FEW.items() if key != "rank"}
    model = niso.fit(x, tx, method="autoencoder", architecture="conv", **few)
    with pytest.raises(TypeError, match="the method autoencoder has no maps"):
        model.map(x, tx)


def test_without_labels_nothing_is_predicted(fitted):
    assert fitted[0].classes == ()
    for use in (fitted[0].predict, fitted[0].probabilities):
        with pytest.raises(TypeError, match="this model has no classifier"):
            use(fitted[1])


@pytest.mark.parametrize("name", ["encode", "decode", "map", "solve", "transport", "invariants", "probabilities"])
def test_type_checkers_know_that_arrays_give_arrays_and_tensors_tensors(name):
    given, *_, returned = get_type_hints(inspect.unwrap(getattr(niso.Fitted, name))).values()
    assert given is returned and given.__constraints__ == (np.ndarray, torch.Tensor)


def test_decoding_keeps_the_precision_of_the_model(fitted):
    model = pickle.loads(pickle.dumps(fitted[0]))
    np.testing.assert_allclose(model.decode(np.ones((2, 4, 2), int)), model.decode(np.ones((2, 4, 2), np.float16)))
    model.method.model.double()
    a = model.encode(fitted[1])
    exact, rounded = model.decode(a), model.decode(a.astype(np.float32))
    assert a.dtype == exact.dtype == np.float64 and (exact != rounded).any()
    np.testing.assert_allclose(exact, rounded, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_models_in_half_precision_decode_to_single_precision(dtype):
    """Units may be such that half precision does not hold them."""
    model = niso.load("photographs")
    model.units = replace(model.units, scaling=Scaling((0.0,), (1e6,)), range=None)
    a = model.encode(1e6 * np.random.default_rng(0).random((2, 3, 32, 32)))
    exact = model.decode(a)
    model.method.model.to(dtype)
    back = model.decode(a)
    assert back.dtype == np.float32
    np.testing.assert_allclose(back / 1e6, exact / 1e6, atol=0.05)


def test_observations_whose_squares_overflow_or_vanish_are_refused(tmp_path):
    """Maps of a torus are free of units, but single precision is not: they were wrong, or no numbers."""
    model, x = niso.load("torus"), np.random.default_rng(0).standard_normal((2, 256, 3)).astype(np.float32)
    tau = model.map(x, x[::-1].copy())
    for unit in (1e-12, 1e12):
        np.testing.assert_allclose(model.map(unit * x, unit * x[::-1]), tau, atol=1e-2)
    model.encode(np.zeros_like(x))
    for unit, shown in ((np.float32(1e25), r"[34]e\+25"), (np.float32(1e-25), "[34]e-25")):
        with pytest.raises(ValueError, match=f"observations reach {shown}: bring them to units"):
            model.map(x, unit * x)
        np.save(tmp_path / "x.npy", unit * x)
        with pytest.raises(InputError, match=r"x\.npy: observations reach"):
            model.read(tmp_path / "x.npy")


def test_values_far_from_zero_come_back(fitted):
    """Days since −4712 vary by hundredths of a day, which single precision does not hold beside the millions."""
    x, tx = (2_460_000 + 0.01 * values.astype(np.float64) for values in shifted())
    model = niso.fit(x, tx, **FEW)
    near, back = fitted[0].decode(fitted[0].encode(fitted[1])), model.decode(model.encode(x))
    assert (near.dtype, back.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose((back - 2_460_000) / 0.01, near, atol=1e-3)
    assert model.transport(x, np.eye(4, dtype=np.float32)[None]).dtype == np.float64
    with pytest.raises(InputError, match="train on values less their mean"):
        export(model, Path("nowhere"), "pt2")


def test_values_that_are_rounded_to_one_number_are_refused(fitted, tmp_path):
    """Quarters of a day in single precision: a model of hundredths of a day would make noise of them."""
    x, tx = (2_460_000 + 0.01 * values.astype(np.float64) for values in shifted())
    x[..., 1] = tx[..., 1] = 1e8  # a channel of one value, which single precision does hold
    model = niso.fit(x, tx, **FEW)
    model.encode(torch.from_numpy(x))
    for rounded in (x.astype(np.float32), torch.from_numpy(x).float()):
        with pytest.raises(ValueError, match=r"^float32 does not hold how the observations vary: give float64"):
            model.encode(rounded)
    np.savez(tmp_path / "rounded.npz", x=x.astype(np.float32))
    with pytest.raises(InputError, match=r"rounded\.npz: float32 does not hold how"):
        model.read(tmp_path / "rounded.npz")
    small = shifted()[0].copy()
    small[..., 1] = 1e8
    model = niso.fit(small, np.roll(small, 1, 1), **FEW)
    assert model.decode(model.encode(small)).dtype == np.float32
    assert fitted[0].encode(fitted[1].astype(np.float16)).shape == fitted[0].encode(fitted[1]).shape


class Moody(nn.Sequential):
    """An encoder that is another one while it is trained."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(32, 64), nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Unflatten(1, (16, 4)))


def test_whoever_trains_on_gets_what_evaluation_gives():
    x, tx = shifted()
    encoder, decoder = Moody(), nn.Linear(4, 2)
    with pytest.warns(UserWarning, match="^in training the encoder's latents for an observation depend on the others"):
        model = niso.fit(x, tx, encoder=encoder, decoder=decoder, **FEW)
    assert not encoder.training
    a, tau = model.encode(x), model.map(x, tx)
    encoder.train()
    state = {name: value.clone() for name, value in encoder.state_dict().items()}
    np.testing.assert_array_equal(model.encode(x), a)
    np.testing.assert_array_equal(model.map(x, tx), tau)
    torch.testing.assert_close(encoder.state_dict(), state, rtol=0, atol=0)
    assert all(module.training for module in encoder.modules()) and not decoder.training


def test_networks_are_tried_for_what_a_batch_changes():
    """And stay as they are; chance is no dependence."""
    x, tx = shifted()
    encoder, decoder = Moody().eval(), nn.Linear(4, 2)
    encoder[3].train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    with pytest.warns(UserWarning, match="as of batch normalisation, but not in evaluation: normalise each"):
        check_independence(Own(encoder, decoder), x.shape[1:])
    torch.testing.assert_close(encoder.state_dict(), before, rtol=0, atol=0)
    assert [part.training for part in encoder] == [False, False, False, True, False]
    encoder[2] = nn.LayerNorm(64)
    check_independence(Own(encoder, decoder), x.shape[1:])
    encoder.register_forward_pre_hook(lambda module, _: [None][module.training])
    with pytest.raises(InputError, match=r"^the networks do not take observations in training mode: IndexError: "):
        check_independence(Own(encoder, decoder), x.shape[1:])
    mixing = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(16, track_running_stats=False))
    with pytest.raises(InputError, match=r"the decoder's values for .* depend on .* in evaluation mode: normalise"):
        niso.fit(x, tx, encoder=nn.Linear(2, 4), decoder=mixing, **FEW)


class Mistaken(nn.Linear):
    """A network with a mistake of beginners in what it gives."""

    def __init__(self, inputs: int, outputs: int, mistake: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__(inputs, outputs)
        self.mistake = mistake

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mistake(super().forward(x))


class Partial(nn.Module):
    """A module that is not made as one."""

    def __init__(self) -> None:
        pass


def test_mistakes_in_networks_that_training_would_not_show_are_refused():
    x, tx = shifted()
    chance, cut, squeezed = nn.functional.dropout, torch.Tensor.detach, torch.squeeze
    for mistake, remedy in (
        (chance, "{} for an observation differ from call to call in evaluation mode: let dropout and noise depend on"),
        (cut, "the {} cuts off its gradients, so that it does not train: leave out"),
        (squeezed, r"not torch.float32 of \(16, 4\), for observations \(1, 16, 2\)"),
    ):
        with pytest.raises(InputError, match=remedy.format("encoder" if mistake is cut else "encoder's latents")):
            niso.fit(x, tx, encoder=Mistaken(2, 4, mistake), decoder=nn.Linear(4, 2), **FEW)
    for mistake, part in ((chance, "the decoder's values for"), (cut, "the decoder cuts"), (squeezed, "the decoder ")):
        with pytest.raises(InputError, match=part):
            niso.fit(x, tx, encoder=nn.Linear(2, 4), decoder=Mistaken(4, 2, mistake), **FEW)
    frozen = Mistaken(2, 4, cut).requires_grad_(False)
    niso.fit(x, tx, encoder=frozen, decoder=nn.Linear(4, 2), **FEW)
    with pytest.raises(InputError, match=r"^encoder is no whole torch.nn.Module: call super\(\).__init__\(\) first"):
        niso.fit(x, tx, encoder=Partial(), decoder=nn.Linear(4, 2), **FEW)


class Labelled:
    """What holds an array, as a table of pandas does: its items are columns."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, column):
        raise KeyError(column)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


def test_a_table_of_observations_is_read():
    x = shifted()[0][..., 0]
    numbers = x.astype(object)  # as of columns that may miss values
    one, other = (niso.fit(given, transform="shift", **FEW) for given in (Labelled(numbers), x.astype(float)))
    np.testing.assert_array_equal(one.encode(x), other.encode(x))
    numbers[1, 2] = None
    with pytest.raises(InputError, match="x holds Python objects, or misses values"):
        niso.fit(Labelled(numbers), transform="shift", **FEW)


def test_lists_of_tensors_are_read(fitted):
    model, x, tx = fitted
    tensors = [torch.from_numpy(one).requires_grad_() for one in x]
    np.testing.assert_array_equal(niso.fit(tensors, tx, **FEW).map(x, tx), model.map(x, tx))


def test_a_device_of_another_type_is_refused():
    with pytest.raises(InputError, match=r"device must be cpu or cuda, not \[1\]"):
        inspect.unwrap(_accelerator)([1])  # without the suite's check of types


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match="this machine has no GPU that torch can use: leave device= out"):
        niso.fit(*shifted(), device="cuda", **FEW)


def test_transported_observations_have_the_units_of_those_given():
    x, tx = shifted()
    small, large = (niso.fit(x * unit + 7, tx * unit + 7, **FEW) for unit in (np.float32(1), np.float32(100)))
    first, second = (m.transport(x * u + 7, m.map(x * u + 7, tx * u + 7)) for m, u in ((small, 1), (large, 100)))
    np.testing.assert_allclose((first - 7) * 100, second - 7, atol=0.5)


def test_metrics_diagnosis_and_run_folder(fitted, tmp_path, refused):
    model, x, tx = fitted
    assert model.run is None and "equivariance_error" in model.metrics and repr(model).startswith("Fitted(niso, ")
    assert all(str(finding) for finding in model.diagnosis)
    kept = niso.fit(torch.from_numpy(x), torch.from_numpy(tx), **FEW, out=tmp_path / "run")
    assert kept.run == tmp_path / "run" and (kept.run / "report.html").exists()
    assert kept.metrics["equivariance_error"] == model.metrics["equivariance_error"]
    assert "niso.fit on arrays in memory" in refused("evaluate", kept.run)
    assert "<code>niso.fit(…)" in (kept.run / "report.html").read_text()


def test_a_seed_and_a_preset_are_those_that_are_trained_by(fitted):
    model, x, tx = fitted
    again, other = (niso.fit(x, tx, seed=seed, **FEW) for seed in (0, 1))
    np.testing.assert_array_equal(again.encode(x), model.encode(x))
    assert np.abs(other.encode(x) - model.encode(x)).max() > 1e-3
    assert niso.fit(x, tx, preset="standard", **FEW).settings.config.effort == "standard"
    assert (model.settings.method, model.settings.config.effort, other.settings.seed) == ("niso", "quick", 1)


def test_pairs_that_share_a_transformation_are_trained_on_in_groups():
    x, _ = shifted()
    group = np.arange(40) % 8
    tx = np.stack([np.roll(one, by, 0) for one, by in zip(x, group, strict=True)])
    assert niso.fit(x, tx, group=group, **FEW).settings.method == "niso-group"
    assert niso.fit(x, transform="shift", **FEW).settings.method == "niso-group"


def test_groups_of_no_given_size_divide_the_batch():
    x, _ = shifted()
    few = FEW | {"transform": "shift", "batch_size": 6}
    assert niso.fit(x, **few).method.group == 3
    with pytest.raises(InputError, match="a batch of 6 pairs cannot be cut into groups of 4: choose a multiple"):
        niso.fit(x, **few, group_size=4)


def test_a_data_set_of_pairs_and_pictures_that_niso_transforms():
    x, tx = shifted()
    assert niso.fit(torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(tx)), **FEW).metrics
    images = np.random.default_rng(0).integers(256, size=(20, 8, 8)).astype(np.uint8)
    model = niso.fit(images, transform="homography", **FEW, latent_channels=4, group=None)
    assert "relative_map_error" in model.metrics
    assert model.transport(images[:3], model.map(images[:3], images[1:4])).shape == (3, 8, 8)


@pytest.mark.parametrize("method", ["autoencoder", "niso-no-basis"])
def test_a_method_without_a_basis_has_networks_to_train(method):
    x, tx = shifted()
    few = {name: value for name, value in FEW.items() if name != "rank"}
    model = niso.fit(x, tx, method=method, **few, latent_channels=4)
    assert model.encode(x).shape == (40, 16, 4)
    with pytest.raises(InputError, match=f"^architecture=identity leaves {method} nothing to train"):
        niso.fit(x, tx, method=method, **few, architecture="identity")
    with pytest.raises(InputError, match=f"^networks without weights that train leave {method} nothing to train"):
        niso.fit(x, tx, method=method, **few, encoder=nn.Identity(), decoder=nn.Linear(2, 2).requires_grad_(False))
    with pytest.raises(InputError, match=f"rank has no effect, leave it out: the method {method} does not read it"):
        niso.fit(x, tx, method=method, **FEW)


def test_modules_of_the_user():
    x, tx = shifted()
    encoder, decoder = nn.Linear(2, 6), nn.Linear(6, 2)
    model = niso.fit(x, tx, encoder=encoder, decoder=decoder, **FEW)
    assert model.encode(x).shape == (40, 4, 6) and model.method.model.encoder is encoder
    trained = encoder.weight.detach().clone()
    niso.fit(x, tx, encoder=encoder, decoder=decoder, **FEW)  # as in a notebook, where a cell is run again
    assert not torch.equal(encoder.weight, trained)
    niso.fit(x, tx, encoder=encoder, decoder=decoder, label=np.arange(40) % 2, head={"steps": 3}, **FEW)
    assert encoder.weight.requires_grad  # which the training of the head has frozen
    with pytest.raises(InputError, match="latent_channels has no effect, leave it out: the networks are your own"):
        niso.fit(x, tx, encoder=encoder, decoder=decoder, **FEW, latent_channels=4)
    narrow = nn.Sequential(nn.Linear(3, 6), nn.Dropout().eval())
    with pytest.raises(InputError, match="the networks do not take observations"):
        niso.fit(x, tx, encoder=narrow, decoder=decoder, **FEW)
    assert narrow.training and [part.training for part in narrow] == [True, False]
    with pytest.raises(InputError, match=r"torch.float64, observations are float32: \w+: .*: give both .* by \.float"):
        niso.fit(x, tx, encoder=encoder.double().train(), decoder=decoder.double(), **FEW)
    assert encoder.training
    with pytest.raises(InputError, match="give both"):
        niso.fit(x, tx, encoder=encoder, **FEW)
    changing = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(2, 6))
    with pytest.raises(InputError, match=r"the encoder changes its observations.* make its first layer inplace=False"):
        niso.fit(x, tx, encoder=changing, decoder=nn.Linear(6, 2), **FEW)


class Spectral(nn.Module):
    """A Fourier layer over the points, whose weights are complex."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(inputs, outputs, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.irfft(torch.fft.rfft(x, dim=1) @ self.weights, n=x.shape[1], dim=1)


def test_networks_may_have_complex_weights(tmp_path):
    x, tx = shifted()
    encoder, decoder = Spectral(2, 6), Spectral(6, 2)
    before = encoder.weights.detach().clone()
    model = niso.fit(x, tx, encoder=encoder, decoder=decoder, **FEW)
    assert (encoder.weights.detach() - before).imag.abs().min() > 0
    again = niso.load(model.save(tmp_path / "model"), encoder=Spectral(2, 6), decoder=Spectral(6, 2))
    for one in (model, again):
        np.testing.assert_array_equal(one.transport(x, one.map(x, tx)), model.transport(x, model.map(x, tx)))
        assert one.decode(one.encode(x)).dtype == np.float32
    with pytest.raises(CheckpointError, match="give the encoder and decoder that it was trained with"):
        niso.load(tmp_path / "model", encoder=nn.Linear(2, 6), decoder=nn.Linear(6, 2))


class Compiled(nn.Module):
    """With names of weights as `torch.compile` gives them, which takes seconds to import."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._orig_mod = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._orig_mod(x)


def test_compiled_modules_are_saved_and_loaded_as_what_they_were(tmp_path):
    x, tx = shifted()
    model = niso.fit(x, tx, encoder=Compiled(nn.Linear(2, 6)), decoder=nn.Linear(6, 2), **FEW)
    plain = niso.load(model.save(tmp_path / "one"), encoder=nn.Linear(2, 6), decoder=nn.Linear(6, 2))
    again = niso.load(plain.save(tmp_path / "two"), encoder=nn.Linear(2, 6), decoder=Compiled(nn.Linear(6, 2)))
    for other in (plain, again):
        np.testing.assert_array_equal(other.encode(x), model.encode(x))
        np.testing.assert_array_equal(other.transport(x, model.map(x, tx)), model.transport(x, model.map(x, tx)))


@pytest.mark.parametrize(
    "use", [partial(inspect.unwrap(niso.fit), *shifted()), partial(inspect.unwrap(niso.load), "photographs")]
)
def test_what_is_no_network_is_refused(use):
    """By `niso.fit` and `niso.load` alike; unwrapped, without the suite's check of types."""
    for networks, role in (((nn.Identity, nn.Identity()), "encoder"), ((nn.Identity(), nn.Identity), "decoder")):
        with pytest.raises(InputError, match=rf"{role} is the class Identity: give an instance, Identity\(…\)"):
            use(encoder=networks[0], decoder=networks[1])
    with pytest.raises(InputError, match=r"encoder must be a torch.nn.Module, not function"):
        use(encoder=lambda x: x, decoder=nn.Identity())
    with pytest.raises(InputError, match="encoder and decoder go together"):
        use(decoder=nn.Identity())


def test_settings_may_be_given_in_groups_and_beside_them():
    x, _ = shifted()
    groups = {"training": {"learning_rate": 0.01}, "reading": {"kind": "signals"}, "transform": "shift"}
    for order in (groups | FEW, FEW | groups):
        config = niso.fit(x, **order).settings.config
        assert (config.training.steps, config.training.batch_size, config.training.learning_rate) == (3, 4, 0.01)
        assert (config.reading.kind, config.reading.transform) == ("signals", "shift")


def test_sources_are_held_out_together_and_values_are_those_of_numpy():
    x, tx = shifted()
    source = np.arange(40) // 4
    model = niso.fit(x[:, ::-1], tx[:, ::-1], source=source, **{**FEW, "rank": np.int64(4)}, seed=3)
    assert model.settings.config.rank == 4
    with pytest.raises(InputError, match="name a transformation"):
        niso.fit(x, source=source, **FEW)


def test_the_generators_and_threads_of_the_program_are_left_alone():
    x, tx = shifted()
    torch.manual_seed(3)
    torch.backends.cudnn.allow_tf32 = True  # torch's default, which runs turn off
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    niso.fit(x, tx, **FEW)
    assert torch.equal(torch.get_rng_state(), state) and torch.get_num_threads() == threads
    assert torch.backends.cudnn.allow_tf32


class Watching(nn.Linear):
    """A network that sees how it is trained."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.seen = set()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and torch.is_grad_enabled():
            compiled = self._compiled_call_impl is not None
            self.seen.add((torch.is_autocast_enabled("cpu"), torch.get_num_threads(), compiled))
        return super().forward(x)


@pytest.fixture
def chosen(monkeypatch):
    """Makes runs choose such hardware settings; whether they did."""
    calls = []

    def choose(changes):
        def choice(objective, sampler, optimisation, hardware, device):
            calls.append(hardware.speed)
            return replace(hardware, **changes), {}

        monkeypatch.setattr(runner, "choose", choice)
        return calls

    return choose


def watched(steps=3, out=None, **settings):
    """A model with a network that watches, and the data."""
    torch.manual_seed(0)
    x, tx = shifted()
    encoder, decoder = Watching(2, 6), nn.Linear(6, 2)
    few = FEW | {"steps": steps, "out": out} | settings
    return niso.fit(x, tx, encoder=encoder, decoder=decoder, **few), x


def test_the_fastest_way_is_chosen(monkeypatch, capsys, tmp_path):
    times = {speed.Way(): 1.0, speed.Way("bf16-mixed"): 0.9, speed.Way("bf16-mixed", threads=2): 0.5}
    monkeypatch.setenv("NISO_SPEED_CACHE", str(tmp_path))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(speed, "cores", lambda: 2)
    monkeypatch.setattr(speed._Trial, "step", lambda self, way: times.get(way, 1.0))
    threads = torch.get_num_threads()
    short, x = watched(steps=5)
    exact, _ = watched(steps=5, speed="exact")
    np.testing.assert_array_equal(short.encode(x), exact.encode(x))
    monkeypatch.setattr(speed, "FEWEST_STEPS", 5)
    exact, _ = watched(steps=5, speed="exact")
    np.testing.assert_array_equal(short.encode(x), exact.encode(x))
    assert exact.method.model.encoder.seen == {(False, 1, False)} and not list(tmp_path.iterdir())
    fast, _ = watched(steps=5)
    assert capsys.readouterr().err == "" and torch.get_num_threads() == threads
    assert (True, 2, False) in fast.method.model.encoder.seen and not torch.is_autocast_enabled("cpu")
    assert fast.method.model.encoder.weight.dtype == torch.float32
    assert np.abs(fast.encode(x) - exact.encode(x)).max() > 0
    weights = [model.method.model.encoder.weight for model in (fast, exact)]
    torch.testing.assert_close(*weights, rtol=0.01, atol=0.01)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fast)).encode(x), fast.encode(x))
    again, _ = watched(steps=5, progress=True)
    said = 'speed: bf16-mixed, eager, 2 threads, 2.0× as fast as 32-true, eager; as measured before; add speed="exact" '
    assert said in capsys.readouterr().err
    np.testing.assert_array_equal(again.encode(x), fast.encode(x))


class Exacting(nn.Linear):
    """A network that does not compute in bfloat16: it puts what it has computed into float32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = torch.zeros(*x.shape[:-1], self.out_features)
        z[torch.arange(len(z))] = super().forward(x)
        return z


def test_networks_that_do_not_take_half_precision_are_trained_without(monkeypatch, capsys):
    monkeypatch.setattr(speed, "FEWEST_STEPS", 3)
    monkeypatch.setattr(speed, "cores", lambda: 1)
    x, tx = shifted()
    weights = []
    for asked in ("auto", "exact"):
        torch.manual_seed(0)
        encoder = Exacting(2, 6)
        niso.fit(x, tx, encoder=encoder, decoder=nn.Linear(6, 2), speed=asked, **FEW | {"progress": True})
        weights.append(encoder.weight)
    assert torch.equal(*weights)
    assert capsys.readouterr().err.count("speed: the networks do not compute in bfloat16 (Index put requires") == 1


@pytest.mark.parametrize("own", [True, False])
def test_networks_come_back_as_compiled_as_they_were(own, chosen, monkeypatch):
    compiled = []

    def compile_it(module, **_):
        compiled.append(module)
        module._compiled_call_impl = module._call_impl

    monkeypatch.setattr(nn.Module, "compile", compile_it)
    monkeypatch.setattr(compilation, "draw_as_eager_code", lambda: None)
    monkeypatch.setattr("niso.training.loop.wrong_gradient", lambda *_: "")
    chosen({"compile": True})
    x, tx = shifted()
    networks = {"encoder": Watching(2, 6), "decoder": nn.Linear(6, 2)} if own else {"architecture": "pointwise"}
    if own:
        call = networks["decoder"]._compiled_call_impl = networks["decoder"]._call_impl  # as the program compiled it
    model = niso.fit(x, tx, kind="points", **networks, label=np.arange(40) % 2, head={"steps": 3}, **FEW)
    assert model.method.model.encoder in compiled
    left = {part: part._compiled_call_impl for part in model.method.model.modules()}
    assert {part for part, impl in left.items() if impl is not None} == ({networks["decoder"]} if own else set())
    if own:
        assert (False, 1, True) in networks["encoder"].seen and left[networks["decoder"]] == call
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).encode(x), model.encode(x))


def test_a_call_that_goes_on_keeps_what_was_chosen(chosen, monkeypatch, tmp_path):
    healthy, calls = Watching.forward, []

    def interrupting(self, x):
        if self.training and torch.is_autocast_enabled("cpu"):
            calls.append(1)
            if len(calls) == 2:
                signal.raise_signal(signal.SIGINT)
        return healthy(self, x)

    asked = chosen({"precision": "bf16-mixed", "threads": 2})
    monkeypatch.setattr(Watching, "forward", interrupting)
    with pytest.raises(KeyboardInterrupt, match="saved at step 2 of 5"):
        watched(5, tmp_path / "run")
    with pytest.raises(InputError, match=r'an unfinished run in which speed is "auto", not "exact": give the same'):
        watched(5, tmp_path / "run", speed="exact")
    again, x = watched(5, tmp_path / "run")
    assert asked == ["auto"]
    assert {(autocast, threads) for autocast, threads, _ in again.method.model.encoder.seen if autocast} == {(True, 2)}
    hardware = Run.open(tmp_path / "run").settings["hardware"]
    assert (hardware["speed"], hardware["precision"], hardware["threads"]) == ("auto", "bf16-mixed", 2)
    np.testing.assert_array_equal(again.encode(x), watched(5)[0].encode(x))


@pytest.mark.parametrize(("accelerator", "devices"), [("cpu", []), ("auto", [0]), ("gpu", [0])])
def test_only_the_gpu_in_use_has_its_generator_kept(accelerator, devices, monkeypatch):
    kept = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: kept.extend(devices) or nullcontext())
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    with _left_alone(Hardware(accelerator=accelerator)):
        assert kept == devices


@pytest.mark.parametrize("accelerator", ["cpu", "gpu"])
def test_the_gpu_that_a_program_uses_is_left_alone(accelerator, monkeypatch):
    current = [1]

    def exchange(number):
        before, current[0] = current[0], number
        return before

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: nullcontext())
    for name in ("_exchange_device", "_maybe_exchange_device"):
        monkeypatch.setattr(torch.cuda, name, exchange)
    with _left_alone(Hardware(accelerator=accelerator)):
        if accelerator == "gpu":
            current[0] = 0  # as Fabric does
    assert current == [1]


@contextmanager
def default(dtype):
    """A program's own type of new tensors."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def rounding():
    """A program that lets torch round products of float32 matrices."""
    torch.set_float32_matmul_precision("medium")
    try:
        yield
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


PROGRAMS = {
    "without gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "float64": partial(default, torch.float64),
    "float16": partial(default, torch.float16),
    "another device": partial(torch.device, "meta"),
    "lower precision": partial(torch.autocast, "cpu", torch.bfloat16),
    "rounded products": rounding,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_modes_and_defaults_of_a_program_change_nothing(fitted, program, tmp_path):
    model, x, tx = fitted
    with program():
        before = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_default_device()
        again = niso.fit(x, tx, **FEW)
        loaded = niso.load(again.save(tmp_path / "model"))
        assert before == (torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_default_device())
        for other in (again, loaded):
            np.testing.assert_array_equal(other.map(x, tx), model.map(x, tx))
    assert not any(parameter.is_inference() for parameter in loaded.method.model.parameters())


def test_a_fitted_model_can_be_pickled(fitted):
    model, x, tx = fitted
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).map(x, tx), model.map(x, tx))


def test_an_interrupted_fit_says_nothing_of_a_folder_that_is_gone(fitted, monkeypatch):
    def interrupted(*args, **kwargs):
        raise Interrupted("saved; `niso resume` goes on", 2)

    monkeypatch.setattr("niso.runs.runner.run", interrupted)
    with pytest.raises(KeyboardInterrupt) as stopped:
        niso.fit(*fitted[1:], **FEW)
    assert stopped.value.__suppress_context__ and not str(stopped.value)


def test_the_same_call_goes_on_with_what_was_interrupted(fitted, monkeypatch, tmp_path):
    from niso.objective import IsometryObjective

    healthy, calls = IsometryObjective.forward, []

    def interrupting(self, batch, progress):
        calls.append(progress)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return healthy(self, batch, progress)

    _, x, tx = fitted
    monkeypatch.setattr(IsometryObjective, "forward", interrupting)
    with pytest.raises(KeyboardInterrupt, match=r"saved at step 2 of 5; the same call of niso\.fit goes on"):
        niso.fit(x, tx, **FEW | {"steps": 5}, out=tmp_path / "run")
    with pytest.raises(InputError, match=r"not trained to its end: finish it by the same call of niso\.fit"):
        niso.load(tmp_path / "run")
    with pytest.raises(InputError, match="arrays in memory, which are not here: the same call"):
        runner.resume(tmp_path / "run")
    with pytest.raises(InputError, match=r"training\.steps is 5, not 6: give the same"):
        niso.fit(x, tx, **FEW | {"steps": 6}, out=tmp_path / "run")
    with pytest.raises(InputError, match="changed"):
        niso.fit(2 * x, tx, **FEW | {"steps": 5}, out=tmp_path / "run")
    again = niso.fit(x, tx, **FEW | {"steps": 5}, out=tmp_path / "run")
    assert len(calls) == 5 and again.metrics["steps"] == 5
    whole = niso.fit(x, tx, **FEW | {"steps": 5})
    np.testing.assert_array_equal(again.encode(x), whole.encode(x))
    (tmp_path / "run" / REPORT).unlink()  # killed when it had its metrics
    last = niso.fit(x, tx, **FEW | {"steps": 5}, out=tmp_path / "run")
    assert len(calls) == 5 + 5 and (tmp_path / "run" / REPORT).exists()
    np.testing.assert_array_equal(last.encode(x), again.encode(x))
    with pytest.raises(InputError, match="already holds a finished run"):
        niso.fit(x, tx, **FEW | {"steps": 5}, out=tmp_path / "run")


def test_a_call_that_was_killed_when_it_began_goes_on(fitted, tmp_path, monkeypatch):
    """Its folder has config.yaml alone."""
    _, x, tx = fitted

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Run, "write", killed)
        niso.fit(x, tx, **FEW, out=tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()
    with pytest.raises(InputError, match=r"training\.steps is \d+, not 6: give the same"):
        niso.fit(x, tx, **FEW | {"steps": 6}, out=tmp_path / "run")
    niso.fit(x, tx, **FEW, out=tmp_path / "run")
    assert Run.open(tmp_path / "run").facts["command"].startswith("niso.fit")


def test_a_saved_model_is_json_to_strict_readers_whatever_was_measured(fitted, tmp_path, monkeypatch):
    model, found = fitted[0], {**fitted[0].metrics, "equivariance_error": math.nan}
    monkeypatch.setattr(model, "metrics", found)
    folder = model.save(tmp_path / "model")
    json.loads((folder / "config.json").read_text(), parse_constant=pytest.fail)
    again = niso.load(folder).metrics
    assert math.isnan(again["equivariance_error"]) and again.keys() == found.keys()


def test_pairs_that_nothing_relates_are_named():
    x, tx = shifted(300)
    apart = np.random.default_rng(1).standard_normal(tx.shape).astype(np.float32)
    for other, bad in ((tx, False), (apart, True)):
        model = niso.fit(x, other, **{**FEW, "steps": 25, "rank": 16})
        (finding,) = (finding for finding in model.diagnosis if "by their transformed views" in finding.name)
        assert finding.bad == bad and ("row" in finding.remedy) == bad
        assert (model.metrics["pair_discrimination"] < 0.7) == bad
    second = niso.fit(x, tx, ttx=apart, **{**FEW, "steps": 25, "rank": 16})
    assert second.metrics["pair_discrimination"] > 0.7 > second.metrics["pair_discrimination_second"]
    assert any("second pairs of triplets" in finding.name and finding.bad for finding in second.diagnosis)


def test_threads_of_a_program_train_one_after_another(fitted):
    model, x, tx = fitted
    with ThreadPoolExecutor(2) as pool:
        for again in pool.map(lambda _: niso.fit(x, tx, **FEW), range(2)):
            np.testing.assert_array_equal(again.map(x, tx), model.map(x, tx))


def test_tensors_whose_sign_is_kept_apart_are_read(fitted):
    _, x, tx = fitted
    imaginary = torch.complex(torch.from_numpy(x), torch.from_numpy(-x)).conj().imag
    assert imaginary.is_neg()
    np.testing.assert_array_equal(niso.fit(imaginary, tx, **FEW).map(x, tx), fitted[0].map(x, tx))


def test_progress_is_silent_where_it_is_not_wanted(capsys):
    niso.fit(*shifted(), **FEW)
    assert capsys.readouterr() == ("", "")
    niso.fit(*shifted(), **{**FEW, "progress": True})
    assert "40 signals of 16×2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tx": shifted()[0][1:]}, "x has 40 observations and tx 39"),
        ({"tx": np.full((40, 16, 2), np.nan, np.float32)}, r"tx\[0\] holds NaN"),
        ({"preset": "quik"}, "did you mean quick"),
        ({"method": "niso-grop"}, "did you mean niso-group"),
        ({"method": "niso-group"}, "needs groups"),
        ({"rnk": 3}, "unknown setting 'rnk'; did you mean rank"),
        ({"transform": "shift"}, "leave transform= out"),
        (
            {"x": np.random.rand(40, 8, 8), "tx": None, "transform": "warp"},
            "^transform=warp does not fit images",
        ),
        (
            {"first_view": "transformed"},
            "^first_view=transformed needs views that niso makes itself .transform=.: leave",
        ),
        (
            {"x": np.random.rand(40, 16), "tx": None, "transform": "warp", "first_view": "transformed"},
            "^transform=warp does not compose, as first_view=transformed needs: leave that out$",
        ),
        ({"architecture": "vit"}, "^architecture=vit does not take signals"),
        ({"device": "quantum"}, "device must be cpu or cuda"),
        ({"device": "cuda:1"}, "set CUDA_VISIBLE_DEVICES=1"),
        ({"speed": "fast"}, r"^unknown speed 'fast'; did you mean auto\?$"),
        ({"rank": "many"}, "niso.fit: rank: Input should be a valid integer"),
        ({"head": {"step": 3}}, "niso.fit: unknown setting 'step'; did you mean steps"),
        (
            {"kind": "image"},
            "niso.fit: reading.kind: Input should be 'auto', 'images', 'volumes', 'signals' or 'points'",
        ),
        ({"seed": -1}, "seed must be a whole number from 0 on, not -1"),
        ({"skip": 3}, "skip has no effect, leave it out: it is not for a file .npz"),
        ({"reading": {"skip": 3}}, "skip has no effect, leave it out: it is not for a file .npz"),
        ({"in_memory": False}, "unknown setting 'in_memory'"),
        ({"effort": "large"}, "unknown setting 'effort'"),
        ({"x": np.zeros((40, 8, 8, 8)), "tx": None}, '8 channels, say kind="images"; .*, say kind="volumes"$'),
        ({"padding": "circular", "architecture": "identity"}, 'leave it out, or add architecture="conv"$'),
        ({"weights": np.ones(16)}, 'x are signals, say kind="points"$'),
        ({"tx": np.ma.masked_greater(shifted()[1], 1)}, "some values of tx are masked"),
        ({"evaluation_pairs": 1}, "evaluation_pairs must be at least 2, got 1"),
        (
            {"x": np.random.rand(30, 3, 1, 8), "tx": None, "transform": "affine"},
            r"does not fit images \(3, 1, 8\): it needs 2×2 pixels or more",
        ),
        ({"x": [[1.0], [2.0, 3.0]]}, "arrays must be alike"),
        ({"x": 3, "tx": None}, "x must be an array"),
        ({"x": [1, 2], "tx": None}, "must be pairs .*; of single observations give an array"),
        ({"x": [(torch.zeros(1, 8, 8), 3)] * 20, "tx": None}, r"look like \(x, label\), not like pairs"),
        ({"x": {"x": shifted()[0]}, "tx": None}, r"x is a dictionary: .* niso.fit\(\*\*x\)"),
        (
            {"x": "pairs.npz", "tx": None},
            "x is a path or a text: give an array, .* `niso run pairs` reads files",
        ),
        ({"x": [Image.new("L", (8, 8))], "tx": None}, r"x is a list of pictures: give one array, numpy\.stack"),
        ({"x": np.array([[0.5, "cat"]] * 20, dtype=object)}, "x holds words: .* and classes as label"),
        ({"x": Path("pairs.npz")}, "x is a path or a text: give an array"),
        ({"tx": torch.zeros(40, 16, 2, device="meta")}, "on the device meta has no values: give one on the CPU"),
        ({"x": torch.zeros(40, 16, 2).to_sparse()}, r"a sparse tensor is not read: give its to_dense\(\)"),
        ({"x": torch.zeros(40, 16, 2).to(torch.float8_e5m2)}, "tensors of type torch.float8_e5m2 are not read: give"),
        ({"x": torch.zeros(40, 16, 2, dtype=torch.complex64).conj()}, "x is of type complex64: give integers"),
        ({"label": np.ma.masked_equal(np.arange(40) % 3, 0)}, "some values of label are masked"),
        ({"label": np.arange(40) % 3 + 0.5}, "label is of type float64: give whole numbers or words"),
        ({"x": csr_matrix(np.eye(16))}, r"a sparse array is not read: give its toarray\(\)"),
        (
            {"x": DataLoader([(1, 2)]), "tx": None},
            r"a data set of pairs, not DataLoader: give its data set, x\.dataset",
        ),
        ({"epochs": 3}, "unknown setting 'epochs': it is steps"),
        ({"training": {"steps": 4}}, "steps is given twice, by itself and in training: give it once"),
        (
            {"tx": None, "transform": "shift", "group": np.arange(40) % 4},
            "group numbers the transformations of recorded pairs, .*: leave it out; source",
        ),
        ({"latent_channels": 8}, "latent_channels= is of networks, .*: leave it out, or give architecture="),
    ],
)
def test_what_cannot_be_fitted_is_said_in_one_line(changes, message):
    x, tx = shifted()
    with pytest.raises(InputError, match=message) as refused:
        niso.fit(**{"x": x, "tx": tx, **FEW, **changes})
    assert "\n" not in str(refused.value)


def test_single_observations_may_be_a_list_or_a_data_set():
    x = list(shifted()[0])
    settings = {"transform": "shift", **FEW}
    expected = niso.fit(np.stack(x), **settings).metrics
    for given in (x, [torch.from_numpy(one) for one in x]):
        found = niso.fit(given, **settings).metrics
        assert all(found[key] == value for key, value in expected.items() if not key.startswith("seconds"))


def test_pairs_that_niso_is_to_transform_are_refused():
    x, tx = (part[:, None, :, :] for part in shifted(length=8, channels=8))
    for items in (list(zip(x, tx, strict=True)), [list(pair) for pair in zip(x, tx, strict=True)]):
        with pytest.raises(InputError, match="has tx, which is paired as it is: leave transform= out"):
            niso.fit(items, transform="rotation", **FEW)
    with pytest.raises(InputError, match=r"look like \(x, label\)"):
        niso.fit([(torch.from_numpy(one), 3) for one in x], transform="rotation", **FEW)


def test_triplets_are_the_default_where_they_are_given():
    x, tx = shifted()
    assert niso.fit(x, tx, ttx=x, **FEW).settings.method == "niso-triplet"
    assert default_for({"x", "tx"}) == default_for({"x", "clip"}) == "niso"
    assert default_for({"x", "tx", "ttx", "group"}) == default_for({"x"}) == "niso-group"


def test_weights_of_other_points_are_named(capsys):
    x, tx = shifted()
    settings = {"kind": "points", "weights": np.linspace(1, 2, 16), **FEW} | {"progress": True}
    niso.fit(x, tx, **settings)
    assert "weights are not read" not in capsys.readouterr().err
    niso.fit(x, tx, method="niso-no-basis", **{key: value for key, value in settings.items() if key != "rank"})
    assert "weights are not read: no operator is learned on the points" in capsys.readouterr().err


def test_volumes_in_bytes_are_scaled_by_their_own_range():
    x = np.random.default_rng(0).integers(0, 100, (16, 1, 4, 4, 4)).astype(np.uint8)
    units = niso.fit(x, transform="shift", latent_channels=4, **FEW).units
    assert units.scaling.scale == (49.5,) and not units.bytes


def test_a_diagnosis_names_arguments(fitted):
    remedy = "a smaller --rank, or add --norm l2; train for longer (--steps), add --rank 16 or (--preset field)"
    finding = Finding("a", True, "b 1 (not ≤ 0)", remedy)
    model = niso.Fitted(fitted[0].method, fitted[0].settings, fitted[0].facts, {}, (finding,), None)
    assert model.diagnosis[0].remedy == (
        'a smaller rank=, or add norm="l2"; train for longer (steps=), add rank=16 or (preset=field)'
    )


def test_other_observations_are_refused(fitted):
    model, x, tx = fitted
    with pytest.raises(ValueError, match=r"observations must be \(n, 16, 2\)"):
        model.encode(x[:, :8])
    one = x.copy()
    one[3, 2, 1] = np.nan
    with pytest.raises(ValueError, match="hold NaN or infinite values"):
        model.encode(one)
    with pytest.raises(ValueError, match="some values are masked"):
        model.encode(np.ma.masked_greater(x, 1))
    for values in (x.astype(complex), torch.from_numpy(x.astype(complex))):
        with pytest.raises(TypeError, match="must be real numbers"):
            model.encode(values)
    with pytest.raises(ValueError, match="as many transformed"):
        model.map(x, tx[1:])
    with pytest.raises(TypeError, match="NoneType"):
        model.map(x, None)
    eighths = torch.from_numpy(x.round()).to(torch.float8_e5m2)
    np.testing.assert_array_equal(model.encode(eighths).numpy(), model.encode(eighths.float().numpy()))
    with pytest.raises(ValueError, match="at least one observation"):
        model.encode(x[:0])
    for maps in (np.eye(4)[None].repeat(2, 0), np.eye(3)[None], np.eye(4)):
        with pytest.raises(ValueError, match="maps must be"):
            model.transport(x, maps)


WRONG = """
import json
import numpy as np, torch, niso
from PIL import Image
from scipy.sparse import csr_matrix
from niso.data.pairs.observations import Observed

class Table:
    def __array__(self, dtype=None, copy=None):
        return np.zeros((2, 3, 32, 32))

class OfPandas(Table):
    def to_numpy(self):
        return np.asarray(self)

model, x = niso.load("photographs"), np.full((2, 3, 32, 32), 100.0)
a, tau, picture = model.encode(x), model.map(x, x), Image.new("RGB", (32, 32))
model.classifier = torch.nn.Identity()
answers = []
for given in {given}:
    said = set()
    for name, *arguments in (
        *[(name, given) for name in ("encode", "decode", "invariants", "predict", "probabilities")],
        *(("map", given, x), ("map", x, given), ("solve", given, a), ("solve", a, given)),
        *(("transport", given, tau), ("transport", x, given), ("find", given, x), ("find", x, given)),
    ):
        try:
            said.add(str(getattr(model, name)(*arguments)))
        except TypeError as error:
            said.add(str(error))
    answers.append(sorted(said))
print(json.dumps(answers))
"""
STACK = "numpy.stack([picture.convert('RGB') for picture in {}]).transpose(0, 3, 1, 2) makes one of pictures of the "
STACK += "model's size, and Fitted.read reads and resizes files"
NO_ARRAYS = {
    "x.tolist()": "list: numpy.array makes one of it",
    "list(x)": "list: numpy.array makes one of it",
    "()": "tuple: numpy.array makes one of it",
    "tuple(torch.zeros(2, 3, 32, 32))": "tuple: torch.stack makes one of it",
    "picture": f"Image: {STACK.format('[x]')}",
    "[picture]": f"list: {STACK.format('x')}",
    "Table()": "Table: numpy.asarray makes one of it",
    "OfPandas()": "OfPandas: give its to_numpy()",
    "csr_matrix(np.eye(16))": "csr_matrix: give its toarray()",
    "'x.npy'": "str: Fitted.read reads files, and Fitted.features encodes what it gives",
    "Observed(x)": "Observed: give its values, or give it to Fitted.features",
    "None": "NoneType",
}


def test_what_is_no_array_is_refused_and_the_way_to_one_named(outside):
    """By all that takes arrays, in each place, without the suite's check of types."""
    answers = json.loads(outside(WRONG.replace("{given}", f"[{', '.join(NO_ARRAYS)}]")))
    assert answers == [[f"give a numpy array or a torch tensor, not {words}"] for words in NO_ARRAYS.values()]
    images = np.stack([picture.convert("RGB") for picture in [Image.new("RGB", (32, 32))]]).transpose(0, 3, 1, 2)
    assert niso.load("photographs").encode(images).shape == (1, 32, 32)  # as is said


NESTED = torch.nested.nested_tensor([torch.zeros(16, 2), torch.zeros(15, 2)], layout=torch.jagged)


@pytest.mark.parametrize("unread", [torch.zeros(2, 16, 2, device="meta"), torch.zeros(2, 16, 2).to_sparse(), NESTED])
def test_tensors_that_cannot_be_read_are_refused(fitted, unread):
    with pytest.raises(ValueError, match=r"device meta|sparse|nested"):
        fitted[0].encode(unread)


@pytest.mark.filterwarnings("ignore:.*same units")  # absolute values have another mean
@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_tensors_of_unsigned_integers_are_encoded(fitted, dtype):
    values = np.abs(fitted[1]).round()
    a = fitted[0].encode(torch.from_numpy(values).long().to(dtype))
    np.testing.assert_allclose(a.numpy(), fitted[0].encode(values), atol=1e-5)


def test_other_coefficients_and_maps_are_refused(fitted):
    model, x, tx = fitted
    a, tau = model.encode(x), model.map(x, tx)
    assert model.decode(a[:0]).shape == (0, 16, 2)
    with pytest.raises(ValueError, match="too large to solve for a map"):
        model.solve(a * np.float32(1e30), a * np.float32(1e30))
    for wrong in (a[:, :, :1], a[:, :3], a[0]):
        with pytest.raises(ValueError, match=r"coefficients must be \(n, 4, 2\), as encode gives them, not \("):
            model.decode(wrong)
    for wrong in (a[:, :3], a[0], a[None]):
        with pytest.raises(ValueError, match=r"coefficients must be \(n, 4, d\), as encode gives them, not \("):
            model.solve(wrong, wrong)
    for use in (model.decode, lambda values: model.solve(a, values)):
        with pytest.raises(ValueError, match="coefficients hold NaN or infinite"):
            use(a * np.nan)
    with pytest.raises(ValueError, match="maps hold NaN or infinite"):
        model.transport(x, np.full_like(tau, np.inf))


def test_a_folder_with_files_is_refused_in_the_words_of_a_program(fitted, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is not an empty folder: choose another folder"):
        fitted[0].save(tmp_path)


def test_all_of_a_wrong_shape_is_said_of_a_file(fitted, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((20, 17, 2), np.float32))
    with pytest.raises(InputError, match=r"as those trained on, not \(20, 17, 2\)"):
        fitted[0].read(tmp_path / "x.npy")


@pytest.mark.parametrize("shape", [(40, 16), (40, 20, 20)])
def test_files_may_leave_out_the_axis_of_a_single_channel(shape, tmp_path, recwarn):
    """As arrays may: rows of pictures, or points of signals, are then no channels."""
    x = np.random.default_rng(0).integers(256, size=shape).astype(np.uint8)
    model = niso.fit(x, np.roll(x, 1, 1), **FEW)
    striped = np.broadcast_to(x[..., :1], shape)  # pictures that are not blank, though each row is
    recwarn.clear()
    for values in (x, striped)[: len(shape) - 1]:
        np.save(tmp_path / "x.npy", values)
        found = model.features(model.read(tmp_path / "x.npy"))
        np.testing.assert_allclose(found["coefficients"], model.encode(values.copy()), atol=1e-6)
    assert not recwarn.list


def test_maps_that_are_no_isometries_leave_no_invariants(tmp_path):
    x, tx = shifted()
    model = niso.fit(x, tx, method="nft", **FEW)
    with pytest.raises(TypeError, match="nft has no isometries"):
        model.invariants(x)
    with pytest.raises(TypeError, match="nft has no isometries"):
        model.find(x, tx)
    np.savez(tmp_path / "x.npz", x=x)
    assert sorted(model.features(model.read(tmp_path / "x.npz"))) == ["coefficients"]
    model.method.isometric, model.method.has_maps = True, False  # as where a method of one's own says only the latter
    with pytest.raises(TypeError, match="nft has no isometries"):
        model.invariants(x)


def test_a_device_that_is_not_there(fitted, tmp_path):
    folder = fitted[0].save(tmp_path / "model")
    for use in (partial(niso.load, folder), fitted[0].to):
        with pytest.raises(InputError, match=r"^this machine has no device nowhere for torch \(.*\): choose cpu$"):
            use(device="nowhere")
        with pytest.raises(InputError, match="meta has no weights"):
            use(device="meta")
        if not torch.cuda.is_available():
            with pytest.raises(InputError, match="this machine has no device cuda for torch"):
                use(device="cuda")
    for wrong in (None, 1.5):
        with pytest.raises(InputError, match="device must be a name, such as cpu or cuda, or a"):
            inspect.unwrap(find_device)(wrong)  # without the suite's check of types


def test_a_model_is_moved(fitted):
    model, x, tx = fitted
    tau = model.map(x, tx)
    for device in ("cpu", torch.device("cpu")):
        assert model.to(device) is model
    np.testing.assert_array_equal(model.map(x, tx), tau)


@pytest.mark.cuda
def test_a_moved_model_computes_on_the_device(device):
    x, tx = shifted()
    few = FEW | {"label": np.arange(40) % 2, "head": {"steps": 3}, "device": "cpu"}
    model = niso.fit(x, tx, **few)
    here = model.encode(x), model.probabilities(x), model.transport(x, model.map(x, tx))
    assert model.to(device) is model
    tensors = [*model.method.model.parameters(), *model.classifier.parameters(), model.scaled(x)]
    assert {tensor.device.type for tensor in tensors} == {device.type}
    there = model.encode(x), model.probabilities(x), model.transport(x, model.map(x, tx))
    for moved, before in zip(there, here, strict=True):
        assert isinstance(moved, np.ndarray)
        np.testing.assert_allclose(moved, before, atol=1e-4)
    np.testing.assert_array_equal(model.predict(x), np.array(model.classes)[here[1].argmax(1)])
    assert {tensor.device.type for tensor in model.to("cpu").method.model.parameters()} == {"cpu"}


def test_the_study_measures_the_energy_in_fourier_planes():
    found = study.fit(study.Options(signals=40, length=8, steps=3), seed=0)
    assert 0 < found["worst"] <= found["mean"] <= 1 and found["seconds"] > 0


def test_a_classifier_that_is_trained_on_gives_what_evaluation_gives(fitted):
    model, x = copy.copy(fitted[0]), fitted[1]
    size = model.encode(x[:1]).size
    head = nn.Sequential(nn.Flatten(), nn.Linear(size, 3), nn.Dropout(0.9))
    model.classifier, model.classes = Classifier(model.method, head), ("a", "b", "c")
    head.eval()
    probable = model.probabilities(x)
    head.train()
    np.testing.assert_array_equal(model.probabilities(x), probable)
    assert head[2].training


def test_many_maps_are_solved_one_for_each_pair_in_what_was_given_first(fitted):
    model, x, _ = fitted
    a, b = (np.resize(model.encode(part), (BATCH + 3, *model.encode(x).shape[1:])) for part in (x, np.roll(x, 3, 1)))
    maps = model.solve(a, torch.from_numpy(b))
    assert isinstance(maps, np.ndarray) and len(maps) == len(a)
    assert isinstance(model.solve(torch.from_numpy(a[:2]), b[:2]), torch.Tensor)
    np.testing.assert_allclose(maps[-3:], model.solve(a[-3:], b[-3:]), atol=1e-5)
    for shared in (False, True):
        with pytest.raises(ValueError, match="as many transformed observations as observations, not 2 and 3"):
            model.solve(a[:3], b[:2], shared)


def test_a_head_without_labels_is_refused():
    x = np.random.default_rng(0).random((40, 1, 8, 8)).astype(np.float32)
    with pytest.raises(InputError, match="classifier= has no effect, leave it out: DATA has no labels"):
        niso.fit(x, transform="shift", classifier="eigenspaces", steps=3, progress=False)
