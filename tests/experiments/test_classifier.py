"""Classifiers of trained models: of shapes, with the encoder that was trained on together with the head."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import niso as library
from niso.data.pairs.observations import read_observations
from niso.errors import InputError
from niso.experiments.classifier import DECODER, HEAD, trained_classifier
from niso.experiments.head import make_head
from niso.methods.config import ClassifierConfig
from niso.runs import runner
from tests.methods.test_rounding import make, observations

TRAINING = {"steps": 6, "batch_size": 8, "learning_rate": 1e-2}
CASES = {
    "niso": {},
    "nft": {},
    "autoencoder": {"tuning": "labels-and-pairs"},
    "niso-vicreg": {"tuning": "labels-and-pairs"},
    "niso-group": {"classifier": "spectral"},
}


@pytest.fixture(scope="module")
def run_once(tiny_settings, tmp_path_factory):
    """Folders of finished runs of shapes, whose heads were trained for some steps, each once."""
    folders = {}

    def run(method, precision="32-true", **changes):
        key = (method, precision, json.dumps(changes))
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp("classifier") / "run"
            runner.run(tiny_settings("shapes", None, method, precision, head=TRAINING, **changes), folders[key])
        return folders[key]

    return run


@pytest.fixture(scope="module")
def prepared(data_of):
    return data_of("shapes")


def of_shape(prepared, name):
    return np.load(prepared / f"{name}.npy")


def accuracy(predict, run, prepared):
    """Of the shapes that a run was tested on."""
    names = json.loads((run / "run.json").read_text())["test_shapes"]
    return np.mean([predict(of_shape(prepared, name)) == name.partition("/")[0] for name in names])


def test_prepared_shapes_are_read_with_their_classes(prepared, write_shapes, tmp_path, monkeypatch, capsys):
    def read(path):
        return read_observations(path, (2, 8, 16), of_bytes=False)

    names = [f"class{label}/{shape}/{number}" for label in range(3) for shape in range(4) for number in range(5)]
    found = read(prepared)
    assert list(found.names) == names and found.values.dtype == np.float16
    assert found.label.tolist() == [name.partition("/")[0] for name in names]
    np.testing.assert_array_equal(found.values[20:25], of_shape(prepared, "class1/0"))
    monkeypatch.chdir(prepared / "class1")
    for path, rows in (
        (Path(), slice(20, 40)),
        (prepared / "class1/2.npy", slice(30, 35)),
        (Path("3.npy"), slice(35, 40)),
    ):
        part = read(path)
        assert list(part.names) == names[rows] and set(part.label) == {"class1"}
        np.testing.assert_array_equal(part.values, found.values[rows])
    own = write_shapes(tmp_path / "own")
    np.save(own / "class1/0.npy", np.zeros((5, 2, 4, 8), np.float16))
    with pytest.raises(InputError, match=r"own has maps of several sizes: prepare it again, or give the \.npy file"):
        read(own)
    np.save(own / "class1/0.npy", np.full((5, 2, 8, 16), np.nan, np.float16))
    with pytest.raises(InputError, match="NaN"):
        read(own / "class1")
    assert read(own / "class1/1.npy").label.tolist() == ["class1"] * 5
    (own / "class1/2.npy").unlink()
    with pytest.raises(InputError, match=r"2\.npy is missing"):
        read(own / "class1")
    (own / "refused.json").unlink()
    capsys.readouterr()
    read(own / "class2")
    assert "own has no refused.json, with which a preparation ends: are all" in capsys.readouterr().err
    (own / "class1/1.json").unlink()  # an array as any other
    assert read(own / "class1/1.npy").label is None


def test_arrays_beside_other_files_of_parameters_are_no_shapes(tmp_path):
    (tmp_path / "parameters.json").write_text('{"lr": 1}')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.json").write_text("{}")
    np.save(tmp_path / "sub" / "a.npy", np.ones((4, 1, 8, 8), np.float32))
    read = read_observations(tmp_path / "sub" / "a.npy", (1, 8, 8), False)
    assert read.values.shape == (4, 1, 8, 8) and read.label is None


@pytest.fixture
def prepared_with(prepared, tmp_path):
    """Makes copies of the shapes that say that they were prepared with other parameters."""

    def copy(**changes):
        folder = shutil.copytree(prepared, tmp_path / "-".join(changes))
        parameters = json.loads((folder / "parameters.json").read_text())
        (folder / "parameters.json").write_text(json.dumps(parameters | changes))
        return folder

    return copy


@pytest.mark.parametrize(("name", "other"), [("layout", "driscoll-healy"), ("first_time", 0.05), ("eigenpairs", 7)])
def test_shapes_that_were_prepared_in_another_way_are_refused(
    run_once, prepared, prepared_with, tmp_path, refused, name, other
):
    run, there = run_once("niso"), prepared_with(**{name: other})
    own = json.loads((prepared / "parameters.json").read_text())[name]
    fitted = library.load(run)
    models = fitted, library.load(fitted.save(tmp_path / "model"))
    words = rf"another way .* \({name} {other}, not {own}\): .* --{name.replace('_', '-')} {own}$"
    for path in (there, there / "class1", there / "class2/0.npy"):
        for model in models:
            with pytest.raises(InputError, match=words):
                model.read(path)
    out = tmp_path / "out.npz"
    assert f"{name} {other}, not {own}" in refused("predict", run, there, "-o", out)
    assert f"{name} {other}, not {own}" in refused("find", run, prepared, there / "class1", "-o", out)
    pair = prepared / "class0/0.npy", there / "class0/0.npy"
    assert f"{name} {other}, not {own}" in refused("map", run, *pair, "-o", out)
    assert not out.exists()


def test_other_variants_and_other_limits_of_maps_are_read(run_once, prepared_with):
    fitted = library.load(run_once("niso"))
    assert len(fitted.read(prepared_with(seed=1, variants=7, maps="own", distortion=3.0, classes=[])).values) == 60


def test_pairs_of_the_maps_of_a_shape_know_how_they_were_prepared(tiny_settings, write_shapes, tmp_path):
    folder = write_shapes(tmp_path / "maps", classes=1, shapes=1, variants=40)
    settings = tiny_settings("pairs", reading={"transform": "shift"})
    run = tmp_path / "run"
    runner.run(replace(settings, data_dir=folder / "class0/0.npy"), run)
    fitted = library.load(run)
    assert len(fitted.read(folder).values) == 40
    parameters = folder / "parameters.json"
    parameters.write_text(json.dumps(json.loads(parameters.read_text()) | {"last_time": 0.2}))
    with pytest.raises(InputError, match=r"last_time 0\.2, not 0\.1"):
        fitted.read(folder)


@pytest.mark.parametrize("method", CASES)
def test_shapes_are_classified_by_what_was_trained_on_with_the_head(run_once, prepared, tmp_path, method):
    run = run_once(method, **CASES[method])
    fitted = library.load(run)
    assert fitted.classes == ("class0", "class1", "class2")
    before, after = (load_file(run / "checkpoints" / f"{phase}.safetensors") for phase in ("pretrain", "head"))
    classifier, own = fitted.classifier, fitted.method.model.state_dict()
    features = {name: value for name, value in classifier.model.state_dict().items() if name in own}
    assert {name for name in own if not name.startswith(DECODER)} == features.keys()
    assert all(torch.equal(value, after[f"model.backbone.{name}"]) for name, value in features.items())
    assert all(torch.equal(value, after[f"model.head.{name}"]) for name, value in classifier.head.state_dict().items())
    assert any(not torch.equal(value, own[name]) for name, value in features.items())
    fitted_to_maps = {"basis"}  # NFT's, after the checkpoint
    assert all(torch.equal(own[name], before[f"model.model.{name}"]) for name in own.keys() - fitted_to_maps)
    assert accuracy(fitted.predict, run, prepared) == pytest.approx(fitted.metrics["accuracy"], abs=0)
    again = library.load(fitted.save(tmp_path / "model"))
    for path in (prepared, prepared / "class1", prepared / "class2/0.npy"):
        maps = np.asarray(fitted.read(path).values)
        np.testing.assert_array_equal(again.probabilities(maps), fitted.probabilities(maps))
        np.testing.assert_array_equal(again.encode(maps), fitted.encode(maps))
    half = library.load(fitted.save(tmp_path / "half", half=True))
    np.testing.assert_allclose(half.probabilities(maps), fitted.probabilities(maps), atol=0.02)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("model", "half")]
    assert sizes[1] < 0.7 * sizes[0]  # the spectrum, and names, are as large in both


def test_a_model_in_double_precision(run_once, prepared, tmp_path):
    run = run_once("niso", "64-true")
    fitted = library.load(run)
    assert {weights.dtype for weights in fitted.classifier.model.parameters()} == {torch.float64}
    assert accuracy(fitted.predict, run, prepared) == pytest.approx(fitted.metrics["accuracy"], abs=0)
    maps, again = of_shape(prepared, "class0/0"), library.load(fitted.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.probabilities(maps), fitted.probabilities(maps))


def test_a_model_that_was_frozen_is_kept_once(run_once, prepared, tmp_path):
    run = run_once("niso", tuning="none")
    fitted = library.load(run)
    assert fitted.classifier.method is fitted.method and fitted.classifier.model is fitted.method.model
    assert accuracy(fitted.predict, run, prepared) == pytest.approx(fitted.metrics["accuracy"], abs=0)
    fitted.save(tmp_path / "model")
    stored = [load_file(file) for file in (run / "weights.safetensors", tmp_path / "model/model.safetensors")]
    assert stored[0].keys() == stored[1].keys()
    assert {name.partition(".")[0] for name in stored[0]} == {"model", "head"}


def test_runs_without_names_of_classes_have_no_classifier(run_once, prepared, tmp_path, refused):
    """As those of earlier versions; they are evaluated and saved all the same."""
    run = shutil.copytree(run_once("niso"), tmp_path / "run")
    facts = json.loads((run / "run.json").read_text())
    assert facts["data"].pop("classes")
    (run / "run.json").write_text(json.dumps(facts))
    before = json.loads((run / "metrics.json").read_text())
    runner.evaluate(run)
    assert json.loads((run / "metrics.json").read_text()) == before
    for path in (run, library.load(run).save(tmp_path / "model")):
        fitted, maps = library.load(path), of_shape(prepared, "class0/0")
        assert fitted.classes == () and fitted.classifier is None and len(fitted.encode(maps)) == len(maps)
        with pytest.raises(TypeError, match="this model has no classifier"):
            fitted.predict(maps)
    assert "has no classifier" in refused("predict", run, prepared)


def test_weights_of_another_classifier_are_refused(run_once, tmp_path):
    run = shutil.copytree(run_once("niso"), tmp_path / "run")
    facts = json.loads((run / "run.json").read_text())
    facts["data"]["classes"].append("class3")
    (run / "run.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match="its classifier has other weights"):
        library.load(run)


def test_the_command_names_maps_and_counts_those_that_are_right(run_once, prepared, tmp_path, niso):
    run, out, tested = run_once("niso"), tmp_path / "predicted.npz", tmp_path / "tested"
    for name in json.loads((run / "run.json").read_text())["test_shapes"]:
        for file in prepared.glob(f"{name}.*"):
            (tested / file.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, tested / file.parent.name)
    for file in ("parameters.json", "refused.json"):
        shutil.copy(prepared / file, tested)
    done = niso("predict", run, tested, "-o", out)
    assert done.status == 0 and done.err == ""
    with np.load(out) as written:
        right = (written["predicted"] == written["label"]).mean()
        first = written["names"][0]
    assert right == pytest.approx(json.loads((run / "metrics.json").read_text())["accuracy"], abs=0)
    assert f"{right:.1%} are of the class that DATA gives" in done.out and done.out.startswith(f"{first}: class")


@pytest.mark.cuda
@pytest.mark.parametrize("changes", [{"tuning": "none"}, {}], ids=["none", "labels"])
def test_a_moved_model_classifies_on_the_device(run_once, prepared, tmp_path, device, changes):
    fitted, maps = library.load(run_once("niso", **changes)), of_shape(prepared, "class0/0")
    here = fitted.probabilities(maps)
    assert fitted.to(device) is fitted
    assert {tensor.device.type for tensor in fitted.classifier.state_dict().values()} == {device.type}
    np.testing.assert_allclose(fitted.probabilities(maps), here, atol=1e-4)
    there = library.load(fitted.save(tmp_path / "model"), device=device)
    assert {tensor.device.type for tensor in there.classifier.state_dict().values()} == {device.type}
    np.testing.assert_allclose(there.probabilities(maps), here, atol=1e-4)


PREDICT = """
from pathlib import Path
import torch
import niso
from niso.export import Predict, content_of
fitted = niso.load({run!r})
content = content_of("predict", Predict(fitted, fitted.classifier), (torch.randn(2, *fitted.shape),), False, "pt2")
Path({out!r}).write_bytes(content)
"""


@pytest.mark.slow
def test_programs_give_the_same_probabilities(run_once, prepared, tmp_path, outside):
    """Of a network on maps; tests/cli/test_export.py reads the programs of a whole model."""
    run, out = run_once("niso"), tmp_path / "predict.pt2"
    outside(PREDICT.format(run=str(run), out=str(out)))
    program, fitted = torch.export.load(out).module(), library.load(run)
    for name in ("class0/0", "class2/3"):
        maps = of_shape(prepared, name).astype(np.float32)
        found = program(torch.from_numpy(maps)).detach().numpy()
        np.testing.assert_allclose(found, fitted.probabilities(maps), rtol=0, atol=1e-5)
    assert np.ptp(fitted.probabilities(maps)) > 1e-3


def test_the_classifier_of_weights_is_that_which_they_were_of():
    x, method, config = observations(), make(share=1.0, half=False), ClassifierConfig()
    head = make_head(method, config, x, 3)
    tensors = {f"{HEAD}{name}": tensor for name, tensor in head.state_dict().items()} | {"other": torch.ones(1)}
    found = trained_classifier(method, config, x.shape[1:], 3, tensors)
    assert torch.equal(found(x), head.eval()(method.head_features(x))) and not found.head.training
    assert not any(parameter.requires_grad for parameter in found.head.parameters())
    for classes, given in ((0, tensors), (3, {"other": torch.ones(1)})):
        assert trained_classifier(method, config, x.shape[1:], classes, given) is None
    with pytest.raises(ValueError, match="its classifier has other weights"):
        trained_classifier(method, config, x.shape[1:], 4, tensors)
