"""The user's pairs of every kind, from DATA to a report; networks, methods and settings that fit the data."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from niso.cli.main import main
from niso.data.pairs.reading import Reading
from niso.data.pairs.sampling.choose import pair_data
from niso.data.pairs.split import PARTS, split
from niso.data.pairs.table import make_table
from niso.experiments.diagnosis import CHECKS, diagnose
from niso.experiments.homnist.experiment import Homnist
from niso.experiments.pairs import choice, figures
from niso.experiments.pairs.choice import MOST_POINTS, _stride, choose, moves_values, said
from niso.experiments.pairs.experiment import Pairs, PairsResult, Shown
from niso.experiments.pairs.networks import make_networks
from niso.experiments.pairs.presets import PairsConfig
from niso.experiments.pairs.recipes import LATENT, RECIPES, recipe
from niso.loading import load
from niso.methods import METHODS
from niso.methods.evaluation.operator import Operator
from niso.methods.evaluation.pairs import PairEvaluation
from niso.networks import EigenspaceHead, SpectralHead, VectorNeuronHead
from niso.spectrum import FieldSpectrum, LearnedSpectrum, Spectrum

SHORT = "--steps 2 --batch-size 4 --rank 4 --evaluation-pairs 4 --head.steps 2".split()


@pytest.fixture
def run(niso, tmp_path):
    """Runs `niso run pairs` for two steps; what it says, and its run folder."""

    def call(data, *words):
        status, out, err = niso("run", "pairs", "--data", data, *SHORT, *words, "--out", tmp_path / "run")
        assert status == 0, err
        return out, err, tmp_path / "run"

    return call


def arrays(path: Path, *shape: int, **others: np.ndarray) -> Path:
    x = np.random.default_rng(0).standard_normal((24, *shape)).astype(np.float32)
    np.savez(path, x=x, tx=np.flip(x, 1) + 0.1, **others)
    return path


def pictures(folder: Path, count: int = 16, size: int = 16) -> Path:
    folder.mkdir(parents=True)
    for number in range(count):
        pixels = np.random.default_rng(number).integers(256, size=(size, size, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png", compress_level=0)
    return folder


RUNS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "signals": (lambda folder: arrays(folder / "data.npz", 16, 2), ""),
    "labelled": (lambda folder: arrays(folder / "data.npz", 1, 16, 16, label=np.arange(24) % 2), ""),
    "pictures": (lambda folder: pictures(folder / "data"), "--transform shift --size 8 --group-size 2"),
}
"""Data that several tests have a run on, and its words."""


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    """Folders with data and `run`, a run on them that is trained once: not to be changed."""

    @cache
    def train(kind: str) -> Path:
        folder, (make, words) = tmp_path_factory.mktemp(kind), RUNS[kind]
        call = ["run", "pairs", "--data", str(make(folder)), *SHORT, *words.split(), "--out", str(folder / "run")]
        with pytest.raises(SystemExit) as stop:
            main(call)
        assert not stop.value.code
        return folder

    return train


@pytest.fixture
def trained(trained_once, tmp_path):
    """Gives copies of these folders."""

    def copy(kind: str) -> Path:
        once, folder = trained_once(kind), tmp_path / kind
        shutil.copytree(once, folder)
        settings = (folder / "run" / "config.yaml").read_text()
        assert str(once) in settings
        (folder / "run" / "config.yaml").write_text(settings.replace(str(once), str(folder)))
        return folder

    return copy


def built(data: Path, method: str = "niso", **changes: object) -> Pairs:
    """An experiment that is not trained."""
    torch.manual_seed(0)
    config = replace(Pairs.presets["quick"], rank=4, evaluation_pairs=4, **changes)
    experiment = Pairs(config, method, 0, data, torch.device("cpu"))
    list(experiment.phases())
    return experiment


@pytest.mark.parametrize("labelled", [False, True])
def test_what_half_precision_rounds_away_is_read_in_full(labelled, run, tmp_path, monkeypatch):
    monkeypatch.setattr("niso.methods.method.ROUNDED", 0.0)
    labels = {"label": np.arange(24) % 2} if labelled else {}
    err = run(arrays(tmp_path / "pairs.npz", 16, 2, **labels), "--precision", "bf16-mixed")[1]
    assert err.count("networks run in float32 from here") == 1


def test_arrays(run, tmp_path):
    out, err, folder = run(arrays(tmp_path / "pairs.npz", 16, 2))
    assert "24 signals of 16×2" in err and "paired as given; " in err
    assert "method niso;" in err and "equivariance_error" in out
    facts = json.loads((folder / "run.json").read_text())
    assert facts["data"]["shape"] == [16, 2] and facts["chosen"]["rank"] == 4
    assert any("predictions" in note for note in facts["notes"])
    assert "Diagnosis" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "head", "spectrum"),
    [
        ("--classifier eigenspaces", EigenspaceHead, LearnedSpectrum),
        ("--classifier spectral --spectrum field", SpectralHead, FieldSpectrum),
        ("", VectorNeuronHead, LearnedSpectrum),
    ],
)
def test_heads_and_spectra_are_trained_and_loaded(words, head, spectrum, run, trained, niso, tmp_path):
    if words:
        data = arrays(tmp_path / "pairs.npz", 1, 16, 16, label=np.arange(24) % 2)
        folder = run(data, *words.split())[2]
    else:
        shared = trained("labelled")
        data, folder = shared / "data.npz", shared / "run"
    loaded = load(folder)
    assert isinstance(loaded.classifier.head.head, head) and isinstance(loaded.method.model.spectrum, spectrum)
    with np.load(data) as columns:
        x = columns["x"]
    probabilities = loaded.probabilities(x)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
    again = load(loaded.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.probabilities(x), probabilities)
    before = (folder / "metrics.json").read_text()
    assert niso("evaluate", folder).status == 0
    assert json.loads(before)["head"] == json.loads((folder / "metrics.json").read_text())["head"]


def test_a_run_from_before_there_were_heads_to_choose_is_loaded(trained, niso):
    folder = trained("labelled") / "run"
    for name in ("config.yaml", "run.json"):
        text = (folder / name).read_text()
        for line in ("classifier", "spectrum"):
            text = re.sub(rf'^ *"?{line}"?: .*\n', "", text, count=1, flags=re.MULTILINE)
        (folder / name).write_text(text)
    assert isinstance(load(folder).classifier.head.head, VectorNeuronHead)
    assert niso("evaluate", folder).status == 0


def test_a_class_without_an_observation_to_train_on_is_named(run, tmp_path):
    label, source = np.array(["cat", "dog"] * 12), np.arange(24)  # a class of one source is in one part alone
    with np.load(arrays(tmp_path / "pairs.npz", 16, 2, source=source)) as columns:
        parts = split(make_table("pairs", dict(columns), Reading()), PairsConfig.validation, 0.2)[:3]
    for rows in parts:  # each has all classes that it can have, so that none of these draws is better
        label[rows] = np.resize(["cat", "dog"], len(rows))
    label[parts[2][-1]] = "emu"
    data = arrays(tmp_path / "pairs.npz", 16, 2, label=label, source=source)
    _, err, folder = run(data, "--test", "0.2")
    words = "no observation of emu to train on, so none is recognised"
    assert words in err and f"! classes: {words}" in "".join(json.loads((folder / "run.json").read_text())["notes"])


def test_extreme_values_are_named_before_what_they_cause(run, tmp_path):
    x = np.random.default_rng(0).standard_normal((40, 16, 2)).astype(np.float32)
    train = split(make_table("pairs", {"x": x, "tx": np.roll(x, 1, 1)}, Reading()), 0.1, 0.1).train
    x[train[0], 0, 0] = 1e20
    np.savez(tmp_path / "pairs.npz", x=x, tx=np.roll(x, 1, 1))
    _, err, folder = run(tmp_path / "pairs.npz", "--architecture", "pointwise")
    assert "and a few far off: clip or remove those" in err
    assert "extreme values: nearly all values of channel 0" in json.loads((folder / "run.json").read_text())["notes"][0]


def test_data_that_has_grown_is_refused(trained, refused, niso):
    """Its rows are in other parts now: what is held out was trained on."""
    shared = trained("signals")
    data, folder = shared / "data.npz", shared / "run"
    with np.load(data) as file:
        columns = dict(file)
    np.savez(data, **{name: np.concatenate([values, values[:1] + 1]) for name, values in columns.items()})
    before = (folder / "metrics.json").read_text()
    assert "its data has changed since it was trained" in refused("evaluate", folder)
    np.savez(data, **{name: 2 * values for name, values in columns.items()})
    assert "its data has changed since it was trained" in refused("evaluate", folder)
    assert (folder / "metrics.json").read_text() == before
    np.savez(data, **columns)
    (folder / "metrics.json").unlink()
    assert niso("evaluate", folder).status == 0
    assert json.loads((folder / "metrics.json").read_text()) == json.loads(before)


def test_rows_of_large_arrays_that_have_changed_are_refused(run, refused, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2_000, 16, 2)).astype(np.float32)
    np.savez(tmp_path / "pairs.npz", x=x, tx=np.roll(x, 1, 1))
    folder = run(tmp_path / "pairs.npz")[2]
    x[1_234] += 1
    np.savez(tmp_path / "pairs.npz", x=x, tx=np.roll(x, 1, 1))
    assert "its data has changed since it was trained" in refused("evaluate", folder)


def test_pictures_that_have_changed_are_refused(trained, refused, niso):
    shared = trained("pictures")
    folder, data = shared / "run", shared / "data"
    first, kept = data / "0.png", (data / "0.png").read_bytes()
    noise = Image.fromarray(np.random.default_rng(99).integers(256, size=(16, 16, 3), dtype="u1"))
    for change in (
        lambda: first.rename(data / "00.png"),
        lambda: Image.new("RGB", (12, 9)).save(first),
        lambda: noise.save(first, compress_level=0),
    ):
        change()
        assert "its data has changed since it was trained" in refused("evaluate", folder)
        (data / "00.png").unlink(missing_ok=True)
    assert first.stat().st_size == len(kept)  # of the last of them
    first.write_bytes(kept)
    assert niso("evaluate", folder).status == 0


def test_larger_groups_than_share_one_t_are_refused(refused, tmp_path):
    x = np.random.default_rng(0).normal(size=(48, 16, 2))
    np.savez(tmp_path / "pairs.npz", x=x, tx=-x, group=np.arange(48) // 4)
    words = ["--data", tmp_path / "pairs.npz", *SHORT, "--out", tmp_path / "run", "--group-size", "7"]
    assert "no T is shared by 7 pairs to train on, at most by 4: lower --group-size" in refused("run", "pairs", *words)
    assert not (tmp_path / "run").exists()


def test_paired_folders(run, tmp_path):
    for name in "ab":
        pictures(tmp_path / "data" / name)
    assert "16 images of 3×8×8" in run(tmp_path / "data", "--size", "8")[1]


def test_clips(run, tmp_path):
    for clip in range(4):
        pictures(tmp_path / "data" / f"clip{clip}", 10)  # copies, which are one clip and cut into stretches
    out, err, _ = run(tmp_path / "data", "--size", "8", "--skip", "2")
    assert "40 images of 3×8×8" in err and "retrieval" not in out  # frames are alike


def test_pictures_under_homographies(run, tmp_path):
    out, err, _ = run(pictures(tmp_path / "data"), "--transform", "homography", "--size", "8", "--group-size", "2")
    assert "method niso-group in groups of 2" in err and "relative_map_error" in out
    assert all(name in out for name in ("retrieval_map ", "retrieval_first_latents", "retrieval_map_raw"))


def test_crops_are_varied_and_the_users_own_parts_are_not(tmp_path):
    crops = Reading(transform="rotation", size=8, crops=32)
    said = built(pictures(tmp_path / "data"), reading=crops).announcement
    assert "; mirrored, turned and recoloured (variation 0.2)" in said
    x = np.random.default_rng(0).integers(256, size=(24, 3, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", x=x, source=np.arange(24) // 2, label=np.arange(24) % 4)
    said = built(tmp_path / "own.npz", reading=Reading(transform="rotation")).announcement
    assert "in 4 classes (0, 1, 2, …)" in said and "variation" not in said


WEIGHTS = np.arange(1.0, 21.0)
PLACES = np.random.default_rng(1).standard_normal((20, 2))


def test_functions_on_points_are_drawn_in_reading_order(tmp_path, drawn):
    data = arrays(tmp_path / "pairs.npz", 20, 2, points=PLACES, weights=WEIGHTS)
    names = ["observations", "singular_values", "eigenfunctions", "spectrum", "mask"]
    assert drawn(Pairs, built(data).evaluate()) == names


def test_functions_on_points_start_from_their_weights(tmp_path, niso, refused):
    data = arrays(tmp_path / "pairs.npz", 20, 2, points=PLACES, weights=WEIGHTS)
    status, _, err = niso("run", "pairs", "--data", data, *SHORT, "--out", tmp_path / "run")
    assert status == 0 and "a perceptron at each point" in err
    mass = load(tmp_path / "run").spectrum.mass
    np.testing.assert_allclose(mass, WEIGHTS / WEIGHTS.mean(), rtol=0.1)
    # other functions are known to be on the same points, or not
    x = np.load(data)["x"]
    for name, others in {
        "same": {"points": PLACES.astype(np.float32), "weights": 3 * WEIGHTS.astype(np.float32)},
        "without": {},
        "turned": {"points": PLACES[:, ::-1]},
        "fewer": {"points": PLACES[1:]},
        "order": {"weights": WEIGHTS[::-1]},
    }.items():
        np.savez(tmp_path / f"{name}.npz", x=x, **others)
        words = ["features", tmp_path / "run", tmp_path / f"{name}.npz", "--out", tmp_path / f"{name}-features.npz"]
        if name in ("same", "without"):
            assert niso(*words).status == 0
        else:
            assert "are not those that the model was trained on, or in another order" in refused(*words)


@pytest.fixture
def volumes(tmp_path):
    np.savez(tmp_path / "volumes.npz", x=np.random.default_rng(0).random((24, 8, 12, 8)).astype(np.float32))
    return tmp_path / "volumes.npz"


def test_volumes_are_drawn(volumes, tmp_path, drawn):
    result = built(volumes, reading=Reading(kind="volumes", transform="rotation")).evaluate()
    names = ["observations", "eigenfunctions", "mass"]
    assert drawn(Pairs, result, *names) == names
    captions = json.loads((tmp_path / "figures" / "captions.json").read_text())
    assert all("the slice in the middle of the first axis" in captions[name] for name in names)
    # where most voxels are dark, a slice may miss what there is
    views = {name: view.where(view > view.quantile(0.9), view.min()) for name, view in result.pairs.views.items()}
    dark = replace(result, pairs=result.pairs._replace(views=views))
    assert "the maximum along the first axis" in figures.transported(dark).caption
    (functions,) = figures.eigenfunctions(dark)
    assert "the slice in the middle of the first axis" in functions.caption


def test_volumes_are_turned_and_used(volumes, tmp_path, niso, refused):
    words = ["--data", volumes, "--kind", "volumes", "--transform", "rotation", *SHORT]
    status, _, err = niso("run", "pairs", *words, "--group-size", "2", "--out", tmp_path / "run")
    assert status == 0 and "24 volumes of 1×8×12×8" in err and "convolutions, 96 latent points" in err
    with np.load(volumes) as columns:
        x = columns["x"]
    model = load(tmp_path / "run")
    assert model.shape == (1, 8, 12, 8) and model.transport(x[4:6], model.map(x[:2], x[2:4])).shape == (2, 8, 12, 8)
    saved = load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(saved.encode(x[:3]), model.encode(x[:3]))
    np.savez(tmp_path / "new.npz", x=x[:5, None])
    assert niso("features", tmp_path / "run", tmp_path / "new.npz", "--out", tmp_path / "features.npz").status == 0
    for architecture in ("vit", "pointwise"):
        message = refused("run", "pairs", *words, "--architecture", architecture, "--out", tmp_path / "other")
        assert f"{architecture} does not take volumes" in message
    assert "for volumes that go round take circular" in refused(
        "run", "pairs", *words, "--padding", "longitude", "--out", tmp_path / "other"
    )


def test_signals_are_drawn(tmp_path, drawn):
    names = ["observations", "eigenfunctions", "spectrum"]
    assert drawn(Pairs, built(arrays(tmp_path / "pairs.npz", 16, 2)).evaluate(), *names) == names


@pytest.mark.parametrize(
    ("kind", "shape", "alike", "words"),
    [
        ("images", (2, 4, 6), True, "The first channel is shown."),
        ("images", (3, 4, 6), True, ""),
        ("images", (3, 4, 6), False, "The first channel is shown."),  # as of temperature, pressure and wind
        ("images", (1, 4, 6), True, ""),
        ("volumes", (2, 4, 6, 5), True, "The first channel is shown."),
        ("volumes", (3, 4, 6, 5), True, "Three channels are shown as red, green and blue."),  # as of velocities
        ("signals", (5, 9), False, "The first 8 channels are shown."),
        ("signals", (5, 8), False, ""),
    ],
)
def test_captions_say_which_of_many_channels_are_drawn(kind, shape, alike, words):
    views = {"ψ": torch.zeros(2, *shape), "Tψ": torch.ones(2, *shape)}
    pairs = PairEvaluation({}, views, None, {}, {})
    caption = figures.transported(PairsResult({}, pairs, None, Shown(kind, alike, None, (1, 4), False))).caption
    assert words in caption and bool(words) == ("shown" in caption)


def test_functions_on_points_of_a_line_are_drawn_along_it():
    places = torch.randperm(9, generator=torch.Generator().manual_seed(0))[:, None].double() ** 2  # uneven
    views = {"ψ": places.expand(2, 9, 1)}
    spectrum = Spectrum(torch.ones(9), torch.cat([places, -places], 1), torch.arange(2.0))
    operator = Operator(spectrum, None, (1, 9), torch.ones(9), spectrum, (1, 9))
    shown = Shown("points", False, places, (1, 9), True)
    result = PairsResult({}, PairEvaluation({}, views, None, {}, {}), operator, shown)
    drawn = [figures.transported(result), *figures.eigenfunctions(result)]
    for picture in drawn:
        line = picture.figure.axes[0].lines[-1]
        assert line.get_ydata().tolist() == line.get_xdata().tolist() == [place**2 for place in range(9)]


def test_labels_give_probes_clean_and_transformed_for_methods_and_the_autoencoder(niso, labelled_pairs, tmp_path):
    words = ["--data", labelled_pairs, *SHORT, "--methods", "niso-group", "autoencoder", "--out", tmp_path / "runs"]
    status, _, err = niso("run", "pairs", *words)
    assert status == 0, err
    metrics = json.loads((tmp_path / "runs" / "niso-group-seed0" / "metrics.json").read_text())
    for name in ("linear", "knn", "head"):
        assert {name, f"{name}_transformed"} <= set(metrics)
    assert {"linear_latents", "knn_latents_transformed"} <= set(metrics)
    plain = json.loads((tmp_path / "runs" / "autoencoder-seed0" / "metrics.json").read_text())
    assert "linear_latents" in plain and "head_transformed" in plain and "linear" not in plain


@pytest.fixture(scope="module")
def untrained(make_tiny):
    """An experiment with labels, before any training, and its metrics."""
    experiment = make_tiny("pairs")
    list(experiment.phases())
    return experiment, experiment.evaluate().metrics


def test_where_maps_are_no_isometries_there_are_no_invariants(make_tiny):
    experiment = make_tiny("pairs", method="nft")
    list(experiment.phases())
    metrics = experiment.evaluate().metrics
    assert {"linear_latents", "knn_latents", "head", "retrieval_map_latents", "retrieval_map_raw"} <= metrics.keys()
    assert not {"linear", "knn_transformed", "retrieval_map", "retrieval_map_val"} & metrics.keys()


@pytest.mark.parametrize("part", PARTS)
def test_metrics_are_of_the_observations_of_their_part(untrained, monkeypatch, part):
    """Noise in place of the observations of one part changes nothing but its metrics."""
    experiment, before = untrained
    view, rows_of_part = experiment.data.view, experiment.data.rows[part]

    def noisy(name, rows):
        return torch.randn_like(view(name, rows)) if torch.isin(rows, rows_of_part).all() else view(name, rows)

    monkeypatch.setattr(experiment.data, "view", noisy)
    torch.manual_seed(1)
    after = experiment.evaluate().metrics
    changed = {name for name in before if before[name] != after[name]}
    validated = {name for name in before if name.endswith("_val")}
    probed = {name for name in before if name.startswith(("linear", "knn"))}
    fixed = {"training_observations", "held_out_observations", "mask_mean", "clusters", "single_eigenvalues"}
    of_pairs = {"relative_map_error", "equivariance_error", "reconstruction_error", "retrieval_map"}
    assert validated >= {f"{name}_val" for name in of_pairs}
    if part == "train":
        fitted = {"reconstruction_error_train", "constant_error"}  # the constant is that of the part trained on
        assert fitted <= changed <= fitted | probed
    elif part == "validation":
        assert changed == validated
    else:
        assert of_pairs <= changed <= before.keys() - validated - fixed - {"reconstruction_error_train"}


@pytest.mark.parametrize("method", ["niso", "nft", "autoencoder"])
def test_nothing_is_trained_on_or_fitted_to_observations_of_other_parts(make_tiny, monkeypatch, method):
    experiment, asked = make_tiny("pairs", method=method), []
    data, view = experiment.data, experiment.data.view
    monkeypatch.setattr(data, "view", lambda name, rows: asked.append(rows) or view(name, rows))
    for phase in experiment.phases():
        for step in range(9):
            phase.sampler(step)
    assert phase.name == "head"
    list(experiment.train_pairs(50))  # that maps are fitted to
    assert set(torch.cat(asked).tolist()) == set(data.rows["train"].tolist())


def test_probes_and_head_are_tested_on_held_out_observations(untrained, monkeypatch):
    """Whose class, here, no observation to train on has: none is recognised."""
    experiment, before = untrained
    data, labels = experiment.data, experiment.data.labels
    monkeypatch.setattr(
        data, "labels", lambda rows: labels(rows).masked_fill(torch.isin(rows, data.rows["test"]), data.classes)
    )
    after = experiment.evaluate().metrics
    scores = {name: value for name, value in after.items() if name.startswith(("linear", "knn", "head"))}
    assert len(scores) == 10 and set(scores.values()) == {0.0} and after["accuracy_chance"] == 1
    assert sum(before[name] for name in scores) > 0


@pytest.mark.parametrize("moved", ["train", "others"])
def test_whether_t_moves_values_is_judged_by_pairs_to_train_on(moved):
    x = np.random.default_rng(0).standard_normal((40, 16, 2)).astype(np.float32)
    table = make_table("pairs", {"x": x, "tx": 2 * x}, Reading())
    train = split(table, 0.1, 0.1).train
    chosen = np.isin(np.arange(40), train) == (moved == "train")
    table.views["tx"][chosen] = np.roll(x, 1, 1)[chosen]
    data = pair_data(table, Reading(), 0.1, 0.1, torch.device("cpu"))
    assert data.rows["train"].tolist() == train.tolist()
    assert moves_values(data) == (moved == "train")


@pytest.mark.parametrize("unit", [1e-50, 1.0, 1e50])
def test_whether_t_moves_values_is_the_same_in_any_unit_of_areas(unit):
    x = np.random.default_rng(0).standard_normal((40, 16, 2)).astype(np.float32)
    for tx, moves in ((2 * x, False), (np.roll(x, 1, 1), True)):
        table = make_table("pairs", {"x": x, "tx": tx, "weights": np.full(16, unit)}, Reading(kind="points"))
        data = pair_data(table, Reading(), 0.1, 0.1, torch.device("cpu"))
        assert moves_values(data) == moves


def standardised(x):
    return ((x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("moves", [True, False])
def test_where_all_energies_are_equal_values_say_whether_t_moves_them(moves):
    x = standardised(np.random.default_rng(0).standard_normal((60, 16, 1)))
    tx = np.roll(x, 3, 1) if moves else standardised(np.exp(x))
    data = pair_data(make_table("pairs", {"x": x, "tx": tx}, Reading()), Reading(), 0.1, 0.1, torch.device("cpu"))
    assert moves_values(data) == moves and not data.doubts
    for method, networks in (("niso", "identity" if moves else "conv"), ("niso-vicreg", "conv")):
        assert choose(PairsConfig(), data, method, own=False).architecture == networks


@pytest.mark.parametrize("wrong", [0, 6, 60])
def test_pairs_that_alone_change_their_energy_are_doubted(wrong):
    x = np.random.default_rng(0).standard_normal((60, 16, 1)).astype(np.float32)
    tx = np.roll(x, 3, 1)
    tx[:wrong] = np.roll(tx[:wrong], 1, 0)
    data = pair_data(make_table("pairs", {"x": x, "tx": tx}, Reading()), Reading(), 0.1, 0.1, torch.device("cpu"))
    assert moves_values(data) == (wrong == 0)
    assert ("pairs" in data.doubts) == (wrong == 6) == ("are these mismatched?" in data.note)
    if wrong == 6:
        named = data.doubts["pairs"].partition("(rows ")[2].partition(")")[0]
        assert {int(row) for row in named.split(", ") if row.isdigit()} <= set(range(6))


@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_a_run_keeps_what_it_chose(command, trained, niso, monkeypatch):
    folder = trained("pictures") / "run"
    before = json.loads((folder / "metrics.json").read_text())
    monkeypatch.setattr(choice, "AT_EDGES", {})  # as if a later version chose other networks, and other losses
    other = replace(LATENT, norm="l2", channels=(16,), relative_equivariance=0.5)
    monkeypatch.setitem(RECIPES, "quick", {"latent": other, "domain": other})
    (folder / "metrics.json").unlink()
    assert niso(command, folder).status == 0
    again = json.loads((folder / "metrics.json").read_text())
    assert all(again[key] == value for key, value in before.items() if not key.startswith("seconds"))
    shutil.rmtree(folder / "checkpoints")  # nothing has begun: it chooses anew
    (folder / "metrics.json").unlink()
    assert niso("resume", folder).status == 0
    chosen = json.loads((folder / "run.json").read_text())["chosen"]
    assert chosen["padding"] == "zeros" and chosen["norm"] == "l2" and chosen["channels"] == [16]


def test_only_methods_that_the_data_supports(refused, tmp_path):
    data = arrays(tmp_path / "pairs.npz", 16, 2)
    words = ["run", "pairs", "--data", data, *SHORT, "--out", tmp_path / "run"]
    assert "needs groups that share one T" in refused(*words, "--method", "niso-group")
    assert "needs triplets (ttx)" in refused(*words, "--method", "niso-triplet")
    words[3] = arrays(tmp_path / "alone.npz", 16, 2, group=np.arange(24))
    assert "'s group occurs twice: leave group out" in refused(*words)
    assert Pairs.available(Pairs.presets["quick"], data)[0] == "niso"
    assert not {"niso-group", "niso-triplet"} & set(Pairs.available(Pairs.presets["quick"], data))
    assert not (tmp_path / "run").exists()


def test_methods_of_triplets_need_transformations_that_can_be_composed(refused, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).random((40, 1, 8, 8)))
    words = ["run", "pairs", "--data", tmp_path / "x.npz", "--transform", "elastic", "--method", "niso-triplet"]
    message = refused(*words, "--out", tmp_path / "run")
    assert "niso-triplet needs T², and --transform elastic does not compose: choose another one" in message
    for transform, there in (("homography", True), ("elastic", False)):
        config = replace(Pairs.presets["quick"], reading=Reading(transform=transform))
        assert ("niso-triplet" in Pairs.available(config)) == there
        assert Pairs.default_method(config, None) == "niso-group"


def test_what_does_not_fit_is_refused(refused, tmp_path):
    data = arrays(tmp_path / "pairs.npz", 16, 2)
    words = ["run", "pairs", "--data", data, *SHORT[:-2], "--out", tmp_path / "run"]
    message = refused(*words, "--rank", "99")
    assert "rank 99 must lie between 1 and the number of points, 16: signals of 16×2 give 1×16 latent points" in message
    assert "give --rank 16 or less" in message
    assert "set it to 0" in refused(*words, "--variation", "0.2")
    assert "does not take signals" in refused(*words, "--architecture", "vit")
    assert "for signals that go round take circular" in refused(*words, "--padding", "longitude")
    assert "not for a perceptron at each point" in refused(
        *words, "--padding", "circular", "--architecture", "pointwise"
    )
    message = refused(*words, "--padding", "circular", "--architecture", "identity")
    assert "here there are no networks" in message and "or add --architecture conv" in message
    assert "go together" in refused(*words, "--encoder", "mine:Encoder")
    assert "points of functions are in no order: leave --spectrum out" in refused(
        *words, "--kind", "points", "--spectrum", "field"
    )
    assert "standardises its features over a batch" in refused(
        *words, "--classifier", "spectral", "--head.batch-size", "1"
    )
    assert "does not exist" in refused("run", "pairs", "--data", tmp_path / "nothing")
    assert "evaluation_pairs must be at least 2, got 1" in refused(*words, "--evaluation-pairs", "1")
    odd = arrays(tmp_path / "odd.npz", 3, 41, 37)
    message = refused("run", "pairs", "--data", odd, "--out", tmp_path / "run")
    assert "cannot be divided" in message and "to multiples of 2," in message
    large = arrays(tmp_path / "large.npz", 1, 600, 9)
    message = refused("run", "pairs", "--data", large, "--out", tmp_path / "run")
    assert "to multiples of 8," in message
    np.savez(tmp_path / "thin.npz", x=np.random.default_rng(0).random((30, 3, 1, 8)))
    words[3] = tmp_path / "thin.npz"
    assert "(3, 1, 8): it needs 2×2 pixels or more; choose shift" in refused(*words, "--transform", "rotation")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("transform", "asked", "padding", "words"),
    [
        ("shift", None, "circular", "convolutions that go round, "),
        ("mobius", None, "longitude", "convolutions that go round from left to right, "),
        ("shift", "zeros", "zeros", "convolutions, "),
        ("homography", None, "zeros", "convolutions, "),
        ("homography", "longitude", "longitude", "convolutions that go round from left to right, "),
    ],
)
def test_convolutions_go_round_where_t_does_and_where_they_are_asked_to(transform, asked, padding, words):
    reading = Reading(transform=transform)
    table = make_table("x", {"x": np.random.default_rng(0).random((30, 2, 8, 8))}, reading)
    data = pair_data(table, Reading(transform=transform, skip=1), 0.1, 0.1, torch.device("cpu"))
    chosen = choose(PairsConfig(padding=asked, reading=reading), data, "niso", own=False)
    assert chosen.padding == padding and words in said(chosen, data, 16, "niso")
    assert f"; rank {chosen.rank};" in said(chosen, data, 16, "niso")
    assert "rank" not in said(chosen, data, 16, "autoencoder")  # which reads none
    encoder, *_ = make_networks(chosen, "images", (2, 8, 8))
    assert encoder.config.padding == padding


NETWORKS = """
import torch
class Encoder(torch.nn.Linear):
    def __init__(self): super().__init__(2, 5)
class Decoder(torch.nn.Linear):
    def __init__(self): super().__init__(5, 2)
class Wrong(torch.nn.Linear):
    def __init__(self): super().__init__(5, 3)
class Tuple(Decoder):
    def forward(self, z): return (super().forward(z),)
class Sign(Decoder):
    def forward(self, z): return super().forward(z) > 0
class Keeping(Decoder):
    def get_extra_state(self): return {"k": 3}
    def set_extra_state(self, state): pass
class Pair(Decoder):
    def forward(self, z): return super().forward(z.reshape(2, 16, 5))
class Partial(torch.nn.Module):
    def __init__(self): pass
"""


def test_networks_of_the_user_are_imported_from_the_working_directory(run, refused, tmp_path, monkeypatch):
    (tmp_path / "nets_of_mine.py").write_text(NETWORKS)
    monkeypatch.chdir(tmp_path)
    data = arrays(tmp_path / "pairs.npz", 16, 2)
    words = ["--encoder", "nets_of_mine:Encoder", "--decoder"]
    assert "networks of your own, 16 latent points, 5 channels" in run(data, *words, "nets_of_mine:Decoder")[1]
    for name, message in (
        ("nets_of_mine:Wrong", "the decoder gives torch.float32 of (2, 16, 3) for observations (2, 16, 2)"),
        ("nets_of_mine:Tuple", "the decoder gives tuple for observations (2, 16, 2)"),
        ("nets_of_mine:Sign", "the decoder gives torch.bool of (2, 16, 2) for observations (2, 16, 2)"),
        ("nets_of_mine:Keeping", "the networks: _extra_state is state that is no tensor"),
        ("nets_of_mine:Pair", "the networks do not take observations (3, 16, 2): RuntimeError"),
        ("nets_of_mine:Partial", "call super().__init__() first in its __init__"),
        ("nets_of_mine:Missing", "has no attribute 'Missing'"),
        ("nowhere:Decoder", "niso: there is no module nowhere"),
        ("Decoder", "is not module:Class"),
    ):
        line = refused("run", "pairs", "--data", data, *SHORT, *words, name, "--out", tmp_path / "other")
        assert message in line


@pytest.mark.parametrize(
    ("measured", "words", "bad"),
    [
        ({"relative_map_error": 0.9}, "maps carry content", True),
        ({"relative_map_error": 0.1}, "maps know the transformation", False),
        ({"relative_map_error": 0.1, "relative_map_error_centred": 0.9}, "maps carry content", True),
        ({"equivariance_error": 0.1}, "cannot be measured", None),
        ({"invariants_common": 0.999}, "invariants collapse", True),
        ({"mask_mean": 0.99}, "still degenerate", True),
        ({"single_eigenvalues": 1.0}, "split entirely", True),
        ({"latent_spread": 1e-5}, "latents shrink", True),
        ({"latent_rank": 1.01}, "nearly one direction", True),
        ({"reconstruction_error": 0.3, "reconstruction_error_train": 0.1}, "too few pairs", True),
        ({"reconstruction_error": 0.3, "identity_error": 0.3}, "no better than doing nothing", True),
        ({"reconstruction_error": 0.3, "constant_error": 0.31}, "nearly the same for all observations", True),
        ({"reconstruction_error": 0.1, "constant_error": 0.31}, "predictions tell observations apart", False),
        ({"latent_spread": float("nan")}, "not finite", True),
        ({"retrieval_map": 0.08, "retrieval_map_raw": 0.12, "retrieval_map_chance": 0.1}, "nothing may relate", True),
        ({"retrieval_map_raw": 0.9, "retrieval_map_chance": 0.1}, "are found by", False),
    ],
)
def test_the_diagnosis_names_threshold_and_remedy(measured, words, bad):
    reads = METHODS.find("niso").reads
    found = [finding for finding in diagnose(measured, reads, reads) if words in finding.name]
    assert [finding.bad for finding in found] == [bad]
    assert bool(found[0].remedy) == (bad is True) and "\n" not in str(found[0])


@pytest.mark.parametrize(
    "measured",
    [
        {"reconstruction_error": 1e-6, "reconstruction_error_train": 5e-7},
        {"retrieval_map": 0.6, "retrieval_map_chance": 0.6},
    ],
    ids=["rounding", "few"],
)
def test_what_rounding_or_chance_may_be_is_no_finding(measured):
    assert not list(diagnose(measured, (), ()))


def test_no_remedy_names_an_option_that_there_is_not():
    measured = {"single_eigenvalues": 1.0, "invariants_common": 1.0}
    for kind, has in ((Pairs, False), (Homnist, True)):
        text = " ".join(finding.remedy for finding in kind.findings(measured, "niso"))
        assert "a smaller --multiplicity" in text
        assert ("--multiplicity-decay" in text) == ("weight of the equivariance loss" in text) == has


def test_what_is_wrong_comes_first():
    assert [finding.bad for finding in diagnose({"mask_mean": 0.1, "invariants_common": 1.0}, (), ())] == [
        True,
        False,
    ]
    assert len({check.formula for check in CHECKS}) == len(CHECKS)


@pytest.mark.parametrize("architecture", ["conv", "vit", "identity"])
def test_networks_of_images(make_tiny, architecture):
    built = make_tiny("pairs", architecture=architecture)
    x = torch.randn(2, 1, 8, 8)
    assert built.method.decode(built.method.encode(x)).shape == x.shape


@pytest.mark.parametrize("size", [(128, 128), (80, 176), (320, 320)])
def test_images_larger_than_homnists_have_networks_that_fit_them(size):
    stride = _stride(size, "images")
    chosen = replace(recipe("quick", "conv"), patch=stride, channels=(8,), blocks=1)
    encoder, decoder, grid, *_ = make_networks(chosen, "images", (2, *size))
    assert grid[0] * grid[1] <= MOST_POINTS["images"]
    assert decoder(encoder(torch.zeros(1, 2, *size))).shape == (1, 2, *size)


def test_a_value_far_off_in_one_row_is_named_and_units_are_not_blamed(run, tmp_path):
    x = np.random.default_rng(0).standard_normal((40, 16, 2)).astype(np.float32)
    tx = np.roll(x, 1, 1)
    tx[17, 3, 0] = 1e4
    np.savez(tmp_path / "pairs.npz", x=x, tx=tx)
    _, err, folder = run(tmp_path / "pairs.npz", "--architecture", "pointwise")
    notes = "\n".join(json.loads((folder / "run.json").read_text())["notes"])
    for told in (err, notes, (folder / "report.html").read_text()):
        assert "row 17 of tx holds 1e+04 in channel 0, far outside the " in told and "same units" not in told


def test_amplitudes_of_many_decades_are_kept_in_the_notes(run, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 16, 2)) * 10 ** rng.uniform(-8, 8, (40, 1, 1))
    np.savez(tmp_path / "pairs.npz", x=x, tx=np.roll(x, 1, 1))
    _, err, folder = run(tmp_path / "pairs.npz", "--architecture", "pointwise")
    notes = json.loads((folder / "run.json").read_text())["notes"]
    (note,) = (line for line in notes if line.startswith("! faint observations: "))
    told = note.removeprefix("! faint observations: ")
    assert "vary in channel 0 by less than a thousandth of what all do" in told and told in err


def test_views_in_other_units_are_kept_in_the_notes(run, tmp_path):
    x = np.random.default_rng(0).standard_normal((40, 16, 2)).astype(np.float32)
    np.savez(tmp_path / "pairs.npz", x=x, tx=100 * np.roll(x, 1, 1))
    _, err, folder = run(tmp_path / "pairs.npz", "--architecture", "pointwise")
    notes = json.loads((folder / "run.json").read_text())["notes"]
    told = "the range of tx is 1e+02 times that of x: give both in the same units"
    assert told in err and f"! units: {told}" in notes
