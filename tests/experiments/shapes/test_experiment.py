"""The shapes experiment on small prepared folders: what methods are trained on, splits, metrics, figures, refusals."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from niso.config import Hardware, Optimisation
from niso.data.shapes import prepared
from niso.data.shapes.family import PLANS
from niso.data.shapes.prepared import open_shapes
from niso.errors import InputError
from niso.experiments.shapes import experiment as shapes_experiment
from niso.experiments.shapes import maps as shapes_maps
from niso.experiments.shapes.experiment import Shapes
from niso.experiments.shapes.maps import ShapeMaps
from niso.experiments.shapes.presets import PAPER, PRESETS, ShapesConfig
from niso.experiments.shapes.vertices import VERTEX_METRICS
from niso.geometry.domains.equirectangular import Layout
from niso.geometry.mobius import MobiusTransformations
from niso.methods.config import FieldConfig
from niso.methods.evaluation.latents import INVARIANT_METRICS, INVARIANTS_ROUNDING, LATENT_METRICS, MASK_METRICS
from niso.networks import ConvConfig
from niso.random import EVALUATION_SEED
from niso.results import Result
from niso.runs.record import write_record
from niso.training.ahead import Ahead
from niso.training.processes import make_fabric, network_precision
from niso.training.run import Run
from tests.experiments.alike import ALIKE

CPU = torch.device("cpu")
CLASSES, SHAPES, VARIANTS, CHANNELS, HEIGHT, WIDTH = 3, 4, 5, 2, 8, 16
TINY = replace(
    PRESETS["quick"],
    conv=ConvConfig((8, 16), CHANNELS, (4, 6), blocks=1, latent_channels=6, stem_channels=4, padding="longitude"),
    rank=8,
    train_shapes=2,
    test_shapes=2,
    validation_shapes=0,
    nft_epochs=1,
    nft_maps=8,
    training=Optimisation(steps=2, batch_size=4, learning_rate=1e-3),
    head=Optimisation(steps=2, batch_size=4, learning_rate=1e-2),
    evaluation_pairs=5,
)
METHODS = [method for method in Shapes.methods() if method not in ALIKE]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_shapes) -> Path:
    size = {"variants": VARIANTS, "channels": CHANNELS, "height": HEIGHT, "width": WIDTH}
    return write_shapes(tmp_path_factory.mktemp("shapes") / "prepared", CLASSES, SHAPES, **size)


def make(folder: Path, method: str = "niso", seed: int = 0, **changes: object) -> Shapes:
    torch.manual_seed(0)
    return Shapes(replace(TINY, **changes), method, seed, folder, CPU)


def place(experiment: Shapes, maps: torch.Tensor) -> list[tuple[int, int]]:
    """(shape, variant) of every map of a batch."""
    shapes, variants = len(experiment.shapes.names), experiment.shapes.variants
    index = torch.cartesian_prod(torch.arange(shapes), torch.arange(variants))
    known = experiment.maps(index[:, 0], index[:, 1]).flatten(1)
    same = (maps.flatten(1)[:, None] == known).all(-1)
    assert (same.sum(-1) == 1).all()
    return [tuple(index[row.nonzero().item()].tolist()) for row in same]


def evaluated(experiment: Shapes) -> Result:
    """What comes out of an experiment that was not trained."""
    list(experiment.phases())
    return experiment.evaluate()


# Kept as they are while features are trained, by prefix, and changed
UNUSED = {"nft": "lifting", "nft-triplet": "lifting", "niso-no-basis": "decoder", "autoencoder": "decoder"}
CHANGED = {"nft": {"reduction"}, "niso-no-basis": set(), "autoencoder": set()}


@pytest.mark.parametrize("method", METHODS)
def test_the_head_trains_what_features_depend_on_and_metrics_are_those_described(folder, train_phases, method):
    experiment = make(folder, method)
    before, after = train_phases(experiment)
    same = {name for name in before if torch.equal(before[name], after[name])}
    unused = UNUSED.get(method, "spectrum.eigenvalue_root")
    assert same >= {name for name in before if name.startswith(("decoder", unused))}
    changed = CHANGED.get(method, {"spectrum.basis", "spectrum.mass_root"})
    assert {"encoder.layers.0.weight", *changed}.isdisjoint(same)
    assert all(
        torch.equal(before[name], value)
        for name, value in experiment.pretrained.model.state_dict().items()
        if name != "basis"
    )
    result = experiment.evaluate()
    described = {metric.key for metric in Shapes.metrics}
    described -= {metric.key for metric in VERTEX_METRICS}
    described -= {"accuracy_val", "accuracy_base_val", INVARIANTS_ROUNDING.key}
    of_maps = {name for name in described if "equivariance" in name or "map_error" in name}
    of_maps |= {metric.key for metric in LATENT_METRICS}
    if experiment.method.mask() is None:
        described -= {metric.key for metric in MASK_METRICS}
    if not experiment.method.has_invariants:
        described -= {metric.key for metric in INVARIANT_METRICS}
    assert result.metrics.keys() == (described - of_maps if method == "autoencoder" else described)
    counts = [result.metrics[name] for name in ("classes", "test_shapes", "test_maps")]
    assert counts == [3, 6, 30]
    assert all(value == value and value >= 0 for value in result.metrics.values())
    assert (result.warped.maps is not None) == (method != "autoencoder")
    assert (result.operator is None) == (method in ("niso-no-basis", "nft", "autoencoder"))


def test_one_class_is_nothing_to_classify(folder):
    with pytest.raises(InputError, match=r"has one class of shapes to tell, .*: give more"):
        make(folder, leave_out=tuple(open_shapes(folder).classes[1:]))


def test_groups_share_a_transformation_of_the_sphere(folder):
    experiment = make(folder, "niso-group", group=4, training=Optimisation(steps=2, batch_size=12))
    sampler = next(experiment.phases()).sampler
    torch.manual_seed(1)
    x, tx = sampler(0)
    shapes, _ = zip(*place(experiment, x), strict=True)
    assert set(shapes) <= set(experiment.split.train.tolist()) and len(set(shapes)) > 3
    torch.manual_seed(1)
    shared = experiment.sampling.action.sample(3)
    torch.testing.assert_close(tx, experiment.sampling.action.act(x, shared.repeat_interleave(4, dim=0)))
    with pytest.raises(InputError, match="a batch of 6 pairs cannot be cut into groups of 4"):
        make(folder, "niso-group", group=4, training=Optimisation(steps=2, batch_size=6))
    batches = {"training": Optimisation(steps=2, batch_size=8), "head": Optimisation(steps=2, accumulation=4)}
    make(folder, "niso-group", group=4, **batches)
    with pytest.raises(InputError, match="a batch of 2 pairs cannot be cut into groups of 4"):
        make(folder, "niso-group", group=4, tuning="labels-and-pairs", **batches)


@pytest.mark.parametrize(
    ("method", "tuning"),
    [("nft", "none"), *((method, "labels-and-pairs") for method in ("niso", "nft", "autoencoder"))],
)
def test_what_is_trained_on_with_the_head_is_chosen(folder, train_phases, method, tuning):
    experiment = make(folder, method, tuning=tuning, head=Optimisation(steps=4, batch_size=10, learning_rate=1e-2))
    before, after = train_phases(experiment)
    changed = {name for name in before if not torch.equal(before[name], after[name])} - {"basis"}  # NFT's, fitted
    if tuning == "none":
        assert not changed
    else:
        assert changed >= {"encoder.layers.0.weight", "decoder.layers.0.conv1.weight"}
        assert ("spectrum.eigenvalue_root" in changed) == (method == "niso")
    keys = experiment.evaluate().metrics.keys()
    tuned = {key for key in keys if "_tuned" in key}
    assert len(tuned) == (4 if tuning == "labels-and-pairs" and method != "autoencoder" else 0)


def test_what_was_frozen_before_stays_so_in_a_head_s_training(folder, train_phases):
    """Functions of a field that are all that its rank has room for."""
    field = FieldConfig("coordinates", layers=0)  # three, and a constant
    experiment = make(folder, spectrum="field", eigenfunctions="rotation", field=field, rank=4)
    frozen = {name for name, p in experiment.method.model.named_parameters() if not p.requires_grad}
    before, after = train_phases(experiment)
    assert frozen and all(torch.equal(before[name], after[name]) for name in frozen)


def test_metrics_of_the_tuned_encoder_are_apart_from_those_before(folder):
    experiment = make(folder)
    before = evaluated(experiment).metrics
    with torch.no_grad():
        for parameter in experiment.method.model.encoder.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    after = experiment.evaluate().metrics
    changed = {name for name in before if before[name] != after[name]}
    tuned = {name for name in before if "_tuned" in name}
    assert len(tuned) == 4 and tuned <= changed <= {*tuned, "accuracy", "accuracy_base"}


def test_losses_of_pairs_weigh_as_at_the_end_of_pretraining_beside_the_head(folder):
    experiment = make(folder, tuning="labels-and-pairs", multiplicity=1.0, multiplicity_decay=0.01)
    pretraining, head = experiment.phases()
    batch = head.sampler(0)

    def loss(objective, batch, progress):
        torch.manual_seed(0)  # of dropout
        return objective(batch, progress)["loss"]

    alone = torch.nn.functional.cross_entropy(head.objective.scores(batch[0]), batch[1])
    for progress in (0.0, 1.0):
        torch.testing.assert_close(
            loss(head.objective, batch, progress), alone + loss(pretraining.objective, batch[2:], 1.0)
        )
    assert loss(pretraining.objective, batch[2:], 0.0) > loss(pretraining.objective, batch[2:], 1.0) + 0.1


def test_frozen_networks_are_evaluated_in_the_precision_that_the_head_had(folder, tmp_path):
    experiment = make(folder, tuning="none", head=Optimisation(steps=1, batch_size=8))
    experiment.method.precision = lambda: torch.autocast("cpu", torch.bfloat16)
    for _ in experiment.phases():
        pass
    assert "invariants_rounding" in experiment.evaluate().metrics
    assert experiment.pretrained is experiment.method  # nothing more was trained on


def test_frozen_features_are_those_of_the_maps(folder):
    experiment = make(folder, tuning="none", head=Optimisation(steps=10, batch_size=8))
    _, head = experiment.phases()
    features, labels = head.sampler(3)
    drawn = experiment.sampling.labelled_at(3)
    assert torch.equal(labels, experiment.sampling.labels[drawn.shape])
    with torch.no_grad():
        expected = experiment.method.head_features(experiment.maps(drawn.shape, *drawn.variants))
    torch.testing.assert_close(features, expected)
    assert features.shape[1:] == (8, 6)


def test_accuracies_count_all_variants_of_held_out_shapes(folder):
    experiment = make(folder)
    list(experiment.phases())
    predicted = experiment.sampling.labels[experiment.split.test][:, None].repeat(1, VARIANTS)
    predicted[0, 0] = (predicted[0, 0] + 1) % CLASSES
    predicted[1, 3:] = (predicted[1, 3:] + 1) % CLASSES
    experiment.classify = lambda members: predicted
    metrics = experiment.evaluate().metrics
    assert metrics["accuracy"] == pytest.approx(1 - 3 / 30)
    assert metrics["accuracy_base"] == pytest.approx(1 - 1 / 6)
    assert metrics["accuracy_chance"] == pytest.approx(1 / CLASSES)


def test_pairs_are_variants_of_one_training_shape(folder):
    experiment = make(folder, training=Optimisation(steps=2, batch_size=500), base_share=0.2)
    first, second = (place(experiment, view) for view in next(experiment.phases()).sampler(0))
    assert [shape for shape, _ in first] == [shape for shape, _ in second]
    assert {shape for shape, _ in first} == set(experiment.split.train.tolist())
    counts = torch.bincount(torch.tensor([variant for _, variant in first]), minlength=VARIANTS) / 500
    torch.testing.assert_close(counts, torch.full((VARIANTS,), 0.2), atol=0.1, rtol=0)
    always = make(folder, training=Optimisation(steps=2, batch_size=50), base_share=1.0)
    first, second = ({variant for _, variant in place(always, view)} for view in next(always.phases()).sampler(0))
    assert (first, second) == ({0}, set(range(VARIANTS)))


def test_pairs_that_metrics_are_of_are_different_variants_of_held_out_shapes(folder, monkeypatch):
    experiment, held_out = make(folder, evaluation_pairs=60), make(folder).split.test.tolist()
    list(experiment.phases())
    evaluate_pairs, seen = shapes_experiment.evaluate_pairs, []

    def watched(method, batches):
        seen.append(list(batches))
        return evaluate_pairs(method, iter(seen[-1]))

    monkeypatch.setattr(shapes_experiment, "evaluate_pairs", watched)
    experiment.evaluate()
    for batches in (seen[0], seen[2]):  # before and after the encoder was trained on with the head
        for first, second in batches:
            for one, other in zip(place(experiment, first), place(experiment, second), strict=True):
                assert one[0] == other[0] and one[0] in held_out and one[1] != other[1]


class QuarterTurns:
    """Some of 0 … 3 quarter turns about the poles, of pixels without a seam."""

    unit = "quarter turns"

    def sample(self, count, generator=None):
        return torch.randint(4, (count,), generator=generator)

    def act(self, x, t):
        return torch.stack([maps.roll(int(by) * WIDTH // 4, -1) for maps, by in zip(x, t, strict=True)])

    def strength(self, t):
        return t.float()


def test_maps_are_tried_on_another_held_out_shape_under_the_same_transformation(folder):
    experiment = make(folder)
    held_out, turned = experiment.split.test.tolist(), set()
    experiment.sampling.action = QuarterTurns()
    for views in experiment.sampling.warped(20):
        for one, other in zip(*(place(experiment, view) for view in views[::2]), strict=True):
            assert one[0] != other[0] and {one[0], other[0]} <= set(held_out) and one[1] == other[1] == 0
        for x, tx, y, ty in zip(*views, strict=True):
            turns = [by for by in range(4) if torch.equal(x.roll(by * WIDTH // 4, -1), tx)]
            assert any(torch.equal(y.roll(by * WIDTH // 4, -1), ty) for by in turns)
            turned.update(turns)
    assert len(turned) > 1


@pytest.mark.parametrize("labelled", ["base", "all"])
def test_heads_see_the_shapes_they_are_told(folder, labelled):
    experiment = make(folder, labelled=labelled, head=Optimisation(steps=2, batch_size=100))
    _, head = experiment.phases()
    maps, labels = head.sampler(0)
    shapes, variants = zip(*place(experiment, maps), strict=True)
    assert set(shapes) == set(experiment.split.train.tolist())
    assert set(variants) == ({0} if labelled == "base" else set(range(VARIANTS)))
    assert labels.tolist() == [shape // SHAPES for shape in shapes]


def test_only_the_autoencoders_head_sees_random_transformations(folder):
    experiment = make(folder, "autoencoder")
    pretraining, head = experiment.phases()
    place(experiment, pretraining.sampler(0)[0])
    maps, labels = head.sampler(0)
    drawn = experiment.sampling.labelled_at(0)
    original = experiment.maps(drawn.shape, drawn.variants[0])
    assert torch.equal(labels, experiment.sampling.labels[drawn.shape])
    assert maps.shape == original.shape and not any(torch.equal(x, y) for x, y in zip(maps, original, strict=True))
    assert (maps.amin((1, 2, 3)) >= original.amin((1, 2, 3)) - 1e-6).all()  # interpolated between its values


@pytest.mark.parametrize("layout", get_args(Layout))
def test_transformations_act_on_the_grid_of_the_preparation(folder, tmp_path, layout):
    own = shutil.copytree(folder, tmp_path / "own")
    (own / "parameters.json").write_text(json.dumps({"format": prepared.FORMAT, "layout": layout}))
    experiment = make(own)
    x, tx, *_ = next(experiment.sampling.warped(3))
    action = MobiusTransformations(experiment.config.mobius, layout)
    transformations = action.sample(3, torch.Generator().manual_seed(EVALUATION_SEED))
    torch.testing.assert_close(tx, action.act(x, transformations))


def test_splits_are_drawn_for_a_seed_and_recorded(folder):
    facts = [make(folder, seed=seed).facts() for seed in range(4)]
    assert facts[0] == make(folder, "nft").facts() and len({json.dumps(fact) for fact in facts}) > 1
    for fact in facts:
        names = fact["train_shapes"] + fact["test_shapes"]
        assert len(set(names)) == len(names) == 12
        assert [name.split("/")[0] for name in fact["test_shapes"]] == sorted(["class0", "class1", "class2"] * 2)


@pytest.mark.parametrize("method", ["niso", "autoencoder"])
def test_validation_shapes_are_training_shapes_that_nothing_trains_on(folder, method):
    without = make(folder, method, train_shapes=3, test_shapes=1)
    experiment = make(folder, method, train_shapes=3, test_shapes=1, validation_shapes=1)
    train, validation, test = (
        set(part.tolist()) for part in (experiment.split.train, experiment.split.validation, experiment.split.test)
    )
    assert train | validation == set(without.split.train.tolist()) and not train & validation
    assert test == set(without.split.test.tolist())
    assert experiment.shapes.labels[experiment.split.validation].tolist() == [0, 1, 2]
    facts = experiment.facts()
    assert {name: len(facts[name]) for name in facts if name.endswith("_shapes")} == {
        "train_shapes": 6,
        "validation_shapes": 3,
        "test_shapes": 3,
    }
    sampling = experiment.sampling
    one, other = (sampling.related(1, stream)(0)[0] for stream in ("pairs", "tuning pairs"))
    assert not torch.equal(one, other)
    drawn = [at(step).shape for at in (sampling.pairs_at, sampling.labelled_at) for step in range(30)]
    assert set(torch.cat(drawn).tolist()) == train
    mean, _ = prepared.statistics(experiment.shapes, experiment.split.train)
    torch.testing.assert_close(experiment.maps.mean.flatten(), mean.float())


def test_classes_are_left_out_by_name_or_because_they_are_too_small(tmp_path, write_shapes):
    mixed = write_shapes(tmp_path / "mixed", 4, 4, channels=CHANNELS)
    shutil.rmtree(mixed / "class1")
    for name in ("0", "3"):
        (mixed / f"class2/{name}.json").unlink()
    experiment = make(mixed)
    assert experiment.announcement == "left out, with fewer than the 4 shapes a class that are needed: class2 (2)"
    assert experiment.shapes.classes == ["class0", "class3"] and experiment.facts()["classes_left_out"] == ["class2"]
    assert {name[:6] for part in ("train", "test") for name in experiment.facts()[f"{part}_shapes"]} == {
        "class0",
        "class3",
    }
    chosen = make(mixed, leave_out=("class0",), train_shapes=1, test_shapes=1)
    assert chosen.shapes.classes == ["class2", "class3"] and not chosen.announcement
    with pytest.raises(
        InputError, match=r"class0 \(4\), class2 \(2\), class3 \(4\); add some, or give smaller --train"
    ):
        make(mixed, train_shapes=9)


@pytest.mark.parametrize(
    ("measured", "expected"), [([0.75, None, 0.25], {"grid_r2": 0.5}), ([None], {})], ids=["some", "constant"]
)
def test_what_the_grid_keeps_is_a_metric(tmp_path, write_shapes, measured, expected):
    own = write_shapes(tmp_path / "measured", CLASSES, SHAPES, channels=CHANNELS)
    for path in own.glob("*/*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"grid_r2": measured}))
    assert make(own).evaluate_grid() == expected


def test_validation_has_metrics_of_its_own_where_there_are_validation_shapes(folder):
    experiments = [make(folder, train_shapes=3, test_shapes=1, validation_shapes=count) for count in (0, 1)]
    without, keys = (evaluated(experiment).metrics.keys() for experiment in experiments)
    assert keys - without == {"accuracy_val", "accuracy_base_val"}
    experiment = experiments[1]
    right = torch.tensor([[1, 0, 0, 0, 0]] * 3).bool()

    def classify(members):  # base shapes of the validation are right, and nothing else
        labels = experiment.shapes.labels[members][:, None].repeat(1, VARIANTS)
        return labels.where(right & torch.equal(members, experiment.split.validation), (labels + 1) % CLASSES)

    experiment.classify = classify
    metrics = experiment.evaluate().metrics
    assert (metrics["accuracy"], metrics["accuracy_base"]) == (0, 0)
    assert (metrics["accuracy_val"], metrics["accuracy_base_val"]) == (pytest.approx(0.2), 1)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_keep_shapes_apart_for_validation(preset):
    assert 0 < PRESETS[preset].validation_shapes < PRESETS[preset].train_shapes


@pytest.mark.parametrize(
    ("method", "precision"), [("nft", "64-true"), ("autoencoder", "64-true"), ("nft", "bf16-mixed")]
)
def test_both_phases_train_in_any_precision(folder, train_phases, method, precision):
    experiment = make(folder, method)
    fabric = make_fabric(Hardware(accelerator="cpu", precision=precision))
    experiment.precision = experiment.method.precision = network_precision(fabric)
    train_phases(experiment, precision)
    assert torch.get_default_dtype() == torch.float32
    assert all(value == value for value in experiment.evaluate().metrics.values())


FIGURES = ("meshes", "shapes", "pairs", "mobius", "maps", "singular_values", "eigenfunctions", "mask", "mass")
"""In reading order."""


@pytest.mark.slow
def test_figures_stand_in_reading_order(folder, drawn):
    assert drawn(Shapes, evaluated(make(folder))) == [*FIGURES]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "lacking"),
    [
        ("nft", {"eigenfunctions", "mask", "mass"}),
        ("autoencoder", {"mobius", "maps", "singular_values", "eigenfunctions", "mask", "mass"}),
    ],
)
def test_figures_are_of_what_a_method_has(folder, method, lacking):
    names = [picture.name for picture in Shapes.draw(evaluated(make(folder, method)))]
    assert names == [name for name in FIGURES if name not in lacking]


def test_channels_that_float16_does_not_hold_are_nothing(tmp_path, write_shapes):
    own = write_shapes(tmp_path / "compact", CLASSES, SHAPES, channels=CHANNELS)
    for path in own.glob("*/*.json"):
        facts = json.loads(path.read_text())
        path.write_text(json.dumps(facts | {key: [1e-18, *facts[key][1:]] for key in ("mean", "square")}))
        maps = np.load(path.with_suffix(".npy"))
        maps[:, 0] = np.float16(6e-8)  # the smallest number that it has
        np.save(path.with_suffix(".npy"), maps)
    experiment = make(own)
    assert f"channel 1 of {CHANNELS}: signatures have nearly one value" in experiment.announcement
    maps = experiment.maps(torch.arange(4), torch.zeros(4, dtype=torch.long))
    assert maps[:, 0].abs().max() < 1e-6 and (maps[:, 1:].std() > 0.1)
    for path in own.glob("*/*.json"):
        path.write_text(
            json.dumps(json.loads(path.read_text()) | {"mean": [1.0] * CHANNELS, "square": [1.0] * CHANNELS})
        )
    with pytest.raises(InputError, match="have one value everywhere"):
        make(own)


def test_other_shapes_of_the_same_names_are_other_data(folder, tmp_path):
    own = shutil.copytree(folder, tmp_path / "own")
    known = [make(own).facts()["content"]]
    assert known[0] == make(folder, seed=1).facts()["content"]
    record = next(iter(sorted(own.glob("*/*.json"))))
    for changed in ({"digest": "1"}, {"digest": "2"}):
        record.write_text(json.dumps(json.loads(record.read_text()) | changed))
        known.append(make(own).facts()["content"])
    parameters = own / "parameters.json"
    parameters.write_text(json.dumps(json.loads(parameters.read_text()) | {"radius": 0.5}))
    known.append(make(own).facts()["content"])
    assert len(set(known)) == 4


def test_a_record_says_how_the_shapes_of_a_folder_were_prepared(finished_once, data_of, tmp_path):
    run = Run.open(finished_once("shapes"))
    record = Run.read(write_record(run, tmp_path))
    parameters = json.loads((data_of("shapes") / "parameters.json").read_text())
    assert record.facts["preparation"] == {key: parameters[key] for key in parameters.keys() - {"format", "classes"}}
    assert record.settings["config"] == run.settings["config"]  # so that it goes together with older ones
    assert "preparation" not in Run.read(write_record(Run.open(finished_once("torus")), tmp_path)).facts


def test_copies_of_a_mesh_are_named(folder, tmp_path):
    own = shutil.copytree(folder, tmp_path / "own")
    one, other = sorted(own.glob("*/*.json"))[:2]
    facts = json.loads(one.read_text())
    rounded = [mean * (1 + 1e-8) for mean in facts["mean"]]  # as of a copy in another format, in other units
    other.write_text(json.dumps(facts | {"digest": "other", "mean": rounded}))
    assert "class0/0 and class0/1 are of the same mesh: what is trained on may be tested on" in make(own).announcement
    assert not make(folder).announcement


def test_channels_are_clipped_and_scaled_by_the_training_shapes(folder):
    opened = prepared.open_shapes(folder)
    members = torch.tensor([1, 6])
    maps = ShapeMaps(opened, members, 1.5, 1.0, CPU)
    mean, deviation = (part.float()[:, None, None] for part in prepared.statistics(opened, members))
    limit = 1.5 * deviation
    expected = (torch.from_numpy(np.array(opened.maps(3)[2])).float().clamp(mean - limit, mean + limit) - mean) / limit
    scaled = maps(torch.tensor([3]), torch.tensor([2]))[0]
    torch.testing.assert_close(scaled, expected)
    assert scaled.min() == -1 and scaled.max() == 1


def test_extremes_are_of_shapes_from_the_first_to_the_last(folder, monkeypatch):
    monkeypatch.setattr("niso.experiments.shapes.maps.SOME", 2)
    maps, members = make(folder).maps, torch.arange(6)
    some = maps.read(torch.tensor([0, 3]), torch.zeros(2, dtype=torch.long)).float()
    assert maps.extremes(members) == (some.min().item(), some.max().item())


def test_maps_on_the_disk_are_the_same_as_in_memory(folder):
    views = []
    for memory in (1.0, 0.0):
        experiment = make(folder, memory=memory)
        assert (experiment.maps.resident is None) == (memory == 0)
        pretraining, head = experiment.phases()
        views.append([*pretraining.sampler(1), *pretraining.sampler(0), *pretraining.sampler(1), *head.sampler(0)])
    assert all(torch.equal(x, y) for x, y in zip(*views, strict=True))


def test_the_next_batches_are_read_ahead():
    calls: list[int] = []
    ahead = Ahead(lambda step: calls.append(step) or step, steps=6, workers=2)
    assert ahead(1) == 1
    ahead.threads.shutdown()
    assert sorted(calls) == [1, 2, 3]
    calls.clear()
    ahead = Ahead(lambda step: calls.append(step) or step, steps=4, workers=2)
    assert [ahead(step) for step in (0, 1, 2, 3)] == [0, 1, 2, 3] and not ahead.pending
    assert sorted(calls) == [0, 1, 2, 3]  # each once, nothing after the last step
    assert [ahead(step) for step in (3, 0, 9)] == [3, 0, 9]  # in any order


def test_what_goes_wrong_ahead_is_raised_at_its_own_step():
    ahead = Ahead(lambda step: 1 / (2 - step), steps=4, workers=3)
    assert ahead(0) == 0.5 and ahead(1) == 1
    with pytest.raises(ZeroDivisionError):
        ahead(2)


def test_without_a_folder_embedded_shapes_are_prepared_as_the_preset_says(monkeypatch, folder, capsys):
    asked = []

    def embedded_shapes(preparation, per_class, vertices, workers, report, made):
        asked.append((preparation, per_class >= 4, vertices, workers >= 1))
        for shape in range(per_class * len(PLANS)):
            report(f"class/{shape}", None)
        return prepared.open_shapes(folder)

    monkeypatch.setattr(shapes_maps, "embedded_shapes", embedded_shapes)
    monkeypatch.setattr("niso.experiments.shapes.experiment.try_head", lambda *_: None)  # maps have other channels here
    experiment = Shapes(TINY, "niso", 0, None, CPU)
    assert len(experiment.split.test) == 6
    assert asked == [(TINY.preparation, True, TINY.vertices, True)]
    assert "prepare" in capsys.readouterr().err


def test_published_values_are_shares():
    values = [value for entry in Shapes.published for value in entry.values.values()]
    assert all(re.fullmatch(r"0\.\d+( ± 0\.\d+)?", value) for value in values)


def test_the_papers_networks_have_the_papers_sizes():
    conv = replace(PAPER.conv, image_size=(96, 192), image_channels=16)
    assert conv.grid == (12, 24) and conv.latent_channels == PAPER.rank == 64
    assert (PAPER.equivariance, PAPER.multiplicity, PAPER.vector_neurons.layers) == (0.5, 0.01, 4)
    assert PAPER.training.steps == 50_000 and PAPER.head.steps == 10_000


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"train_shapes": 0}, "train_shapes must be positive, got 0"),
        ({"clip": 0.0}, "clip must be positive"),
        ({"base_share": 1.5}, "base_share must be at most 1"),
        ({"mobius": -1.0}, "mobius must not be negative"),
        ({"validation_shapes": 10}, r"validation_shapes \(10\) must be below train_shapes \(10\)"),
        ({"validation_shapes": -1}, "validation_shapes must not be negative"),
        ({"memory": -1.0}, "memory must not be negative"),
        ({"group": 0}, "group must be at least 1"),
        ({"vertices": 0}, "vertices must be positive"),
        ({"rank": 0}, "rank must be at least 1"),
        ({"evaluation_pairs": 0}, "evaluation_pairs must be at least 2"),
        ({"multiplicity": -0.1}, "multiplicity must not be negative"),
        ({"relative_equivariance": -0.1}, "relative_equivariance must not be negative"),
        ({"tuning": "labels-and-pairs", "classifier": "spectral"}, "keeps the eigenvalues that labels-and-pairs"),
    ],
)
def test_bad_configurations_are_named(bad, message):
    with pytest.raises(ValueError, match=message):
        ShapesConfig(**bad)


@pytest.mark.slow
def test_a_wrong_call_is_refused(refused, folder, write_shapes, tmp_path):
    out = tmp_path / "run"
    alone = write_shapes(tmp_path / "alone", variants=1)
    broken = write_shapes(tmp_path / "broken", poison=float("nan"))
    calls = {
        "--data-dir nowhere": "nowhere",
        f"--data-dir {folder} --method nfd": "did you mean nft?",
        f"--data-dir {folder}": "14 of each class are needed, 10 to train on and 4 for the test: class0 (4), class1",
        f"--data-dir {folder} --train-shapes 2": "give --validation-shapes, 1 for example",
        f"--data-dir {folder} --leave-out class7": "no class 'class7' to leave out; did you mean class",
        f"--data-dir {folder} --leave-out class0 class1 class2": "are left out: keep some",
        f"--data-dir {folder} --train-shapes 3 --test-shapes 1 --rank 1000": "rank 1000 must lie between 1 and",
        f"--data-dir {folder} --train-shapes 3 --test-shapes 1 --conv.channels 4 4 4 4": "divisible by 16",
        f"--data-dir {folder} --base-share 2": "base_share must be at most 1",
        f"--data-dir {alone} --train-shapes 3 --test-shapes 1": "has no variants of its shapes",
        f"--data-dir {broken} --train-shapes 3 --test-shapes 1": "values that are not finite",
    }
    for options, message in calls.items():
        assert message in refused("run", "shapes", *options.split(), "--out", out)
        assert not out.exists()
    on_disk = f"--data-dir {broken} --train-shapes 3 --test-shapes 1 --memory 0 --batch-size 50"  # met in training
    assert "values that are not finite" in refused("run", "shapes", *on_disk.split(), "--out", out)


def test_a_field_is_read_on_several_meshes_of_held_out_shapes(folder):
    assert make(folder).evaluate_meshes() == {}  # a table
    metrics = make(folder, spectrum="field", field=FieldConfig(layers=1, width=16), test_shapes=1).evaluate_meshes()
    assert metrics.keys() == {metric.key for metric in VERTEX_METRICS}
    assert all(0 <= value < 2 for value in metrics.values())
    assert metrics["coefficient_error_subdivided"] < 0.05
    assert len(set(metrics.values())) == len(metrics)  # each mesh is read in its own way
