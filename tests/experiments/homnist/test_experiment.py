"""The homNIST experiment: what methods are trained on, its splits, its metrics and figures, and what is refused."""

import json
import re
import sys
from dataclasses import replace
from functools import cache, partial

import pytest
import torch

from niso.config import Hardware, Optimisation, overlaid
from niso.data.digits import DIGITS
from niso.data.digits.homnist import PUBLISHED_DISTRIBUTION, GeneratedTestSet
from niso.data.digits.mnist import Digits, embedded, pad
from niso.data.evenly import evenly
from niso.data.squares import signed
from niso.errors import InputError
from niso.experiments.homnist import classification
from niso.experiments.homnist.classification import BATCH, Scores
from niso.experiments.homnist.experiment import Homnist
from niso.experiments.homnist.presets import METHOD_SETTINGS, PRESETS
from niso.experiments.homnist.split import Part, Split, copied, spread_over_classes
from niso.experiments.known import known
from niso.geometry.elastic import ElasticWarps
from niso.geometry.homographies import Homographies
from niso.methods import METHODS
from niso.methods.evaluation.latents import INVARIANT_METRICS, LATENT_METRICS, MASK_METRICS
from niso.methods.evaluation.pairs import PAIR_METRICS, evaluate_pairs
from niso.methods.evaluation.repetition import REPETITION_METRICS
from niso.results import Result
from niso.training.processes import make_fabric, network_precision
from niso.training.run import Run
from tests.experiments.alike import ALIKE
from tests.test_extending import QuarterTurns

CPU = torch.device("cpu")


def test_held_out_copies_of_what_is_trained_on_are_counted():
    images = torch.arange(12, dtype=torch.uint8)[:, None, None].expand(12, 4, 4)
    parts = Split(*(Part(part, torch.zeros(len(part), dtype=torch.long)) for part in images.split([6, 2, 4])))
    assert not copied(parts)
    line = copied(parts._replace(test=Part(images[[0, 0, 9]], torch.zeros(3, dtype=torch.long))))
    assert line.startswith("! copies: 2 of 3 test digits are trained on, too → leave them out")


QUICK = PRESETS["quick"]
TINY = replace(
    QUICK,
    conv=replace(QUICK.conv, channels=(4,), blocks=1, latent_channels=6, stem_channels=4),
    rank=8,
    nft_epochs=1,
    nft_maps=8,
    training=Optimisation(steps=2, batch_size=4, learning_rate=1e-3),
    head=Optimisation(steps=2, batch_size=4, learning_rate=1e-2),
    test_digits=7,
    test_copies=2,
    evaluation_pairs=5,
    validation=0.0,
)


def make(method: str = "niso", **changes: object) -> Homnist:
    torch.manual_seed(0)
    config = overlaid(TINY, METHOD_SETTINGS["quick"].get(method, {}))
    return Homnist(replace(config, **changes), method, 0, None, CPU)


def evaluated(experiment: Homnist) -> Result:
    """What comes out of an experiment that was not trained."""
    list(experiment.phases())
    return experiment.evaluate()


@pytest.fixture(scope="module")
def untrained() -> tuple[Homnist, Result]:
    """The tiny experiment before any training, and what comes out of it: not to be changed."""
    experiment = make()
    return experiment, evaluated(experiment)


def features_of(experiment: Homnist, images: torch.Tensor) -> torch.Tensor:
    """What the head gets of padded digits 0 … 255."""
    experiment.method.model.eval()
    with torch.no_grad():
        return experiment.method.head_features(signed(images)[:, None])


def as_bytes(images: torch.Tensor) -> set[bytes]:
    return {image.numpy().tobytes() for image in images}


def is_padded_digit(images: torch.Tensor) -> torch.Tensor:
    """Which images are training digits as they are."""
    return torch.tensor([image.numpy().tobytes() in padded_digits() for image in images])


@cache
def padded_digits() -> set[bytes]:
    return as_bytes(signed(pad(embedded().train_images)))


@pytest.mark.parametrize("method", [method for method in METHODS if method not in ALIKE])
def test_the_head_leaves_the_backbone_as_it_is(train_phases, method):
    experiment = make(method)
    before, after = train_phases(experiment)
    assert before.keys() == after.keys()
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    assert changed == (["basis"] if method.startswith("nft") else [])  # diagonalised between the phases
    result = experiment.evaluate()
    of_maps = {metric.key for metric in (*PAIR_METRICS, *LATENT_METRICS, *REPETITION_METRICS)} - {
        "reconstruction_error"
    }
    if experiment.method.mask() is None:
        of_maps -= {metric.key for metric in MASK_METRICS}
    if not experiment.method.has_invariants:
        of_maps -= {metric.key for metric in INVARIANT_METRICS}
    always = {"accuracy", "accuracy_clean", "accuracy_chance", "reconstruction_error", "test_images"}
    assert result.metrics.keys() == (always if method == "autoencoder" else always | of_maps)
    assert result.metrics["test_images"] == 14
    assert all(value == value and value >= 0 for value in result.metrics.values())
    assert (result.operator is None) == (method in ("niso-no-basis", "nft", "nft-triplet", "autoencoder"))
    assert (result.pairs.maps is not None) == (method != "autoencoder")


@pytest.mark.parametrize("method", ["niso", "autoencoder"])
def test_only_the_autoencoders_head_sees_homographies(method):
    experiment = make(method)
    _, head = experiment.phases()
    images, labels = head.sampler(0)
    assert images.shape == (4, 1, 24, 24) and labels.shape == (4,)
    assert is_padded_digit(images).all() == (method == "niso")
    assert not any(parameter.requires_grad for parameter in experiment.method.model.parameters())


def test_features_are_computed_once_where_that_is_less_work():
    experiment = make(head=Optimisation(steps=1_000, batch_size=4))
    _, head = experiment.phases()
    torch.manual_seed(3)
    features, labels = head.sampler(0)
    torch.manual_seed(3)
    index = torch.randint(len(experiment.split.train.labels), (4,))
    assert torch.equal(labels, experiment.split.train.labels[index])
    torch.testing.assert_close(features, features_of(experiment, experiment.split.train.images[index]))
    loss = head.objective((features, labels), 0.0)["loss"]
    experiment.method.model.eval()
    scores, smoothing = experiment.head(features), experiment.config.label_smoothing
    expected = torch.nn.functional.cross_entropy(scores, labels, label_smoothing=smoothing)
    torch.testing.assert_close(loss, expected)


def test_the_scale_of_latents_makes_no_difference_to_the_head():
    scores = []
    for factor in (1.0, 1e-3):
        experiment = make()
        experiment.method.model.encoder.layers[-1].weight.data.mul_(factor)
        torch.manual_seed(0)
        list(experiment.phases())
        scores.append(experiment.head(features_of(experiment, experiment.split.train.images[:3])))
    torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("method", "precision"),
    [("niso", "bf16-mixed"), ("autoencoder", "bf16-mixed"), ("nft", "64-true"), ("autoencoder", "64-true")],
)
def test_in_any_precision_features_are_never_half(train_phases, method, precision):
    experiment = make(method)
    fabric = make_fabric(Hardware(accelerator="cpu", precision=precision))
    experiment.precision = experiment.method.precision = network_precision(fabric)
    train_phases(experiment, precision)
    features = features_of(experiment, experiment.split.test.images)
    assert features.dtype == (torch.float64 if precision == "64-true" else torch.float32)
    assert torch.get_default_dtype() == torch.float32
    metrics = experiment.evaluate().metrics
    assert 0 <= metrics["accuracy"] <= 1 and all(value == value for value in metrics.values())


def test_heads_see_the_features_that_are_evaluated():
    """One rule for training, evaluation and inference: networks run in the precision of the run."""
    experiment = make(head=Optimisation(steps=1_000, batch_size=4))
    experiment.precision = experiment.method.precision = lambda: torch.autocast("cpu", torch.bfloat16)
    _, head = experiment.phases()
    torch.manual_seed(3)
    features, _ = head.sampler(0)
    torch.manual_seed(3)
    index = torch.randint(len(experiment.split.train.labels), (4,))
    coarse = features_of(experiment, experiment.split.train.images[index])
    torch.testing.assert_close(features, coarse, rtol=0, atol=0)
    experiment.method.precision = make().precision
    assert not torch.equal(features_of(experiment, experiment.split.train.images[index]), coarse)


def test_the_curve_is_of_the_accuracy(untrained):
    _, result = untrained
    curve = result.curves["accuracy_by_strength"]
    assert sum(curve["count"]) == 14 and max(curve["count"]) - min(curve["count"]) <= 1
    assert curve["x"] == sorted(curve["x"])
    mean = sum(y * count for y, count in zip(curve["y"], curve["count"], strict=True)) / 14
    assert mean == pytest.approx(result.metrics["accuracy"])
    assert json.loads(json.dumps(curve)) == curve


# Splits


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_validation_digits_are_training_digits_that_nothing_trains_on(share):
    data = embedded()
    experiment = make(validation=share, training=replace(TINY.training, batch_size=400))
    validation, train = experiment.split.validation.labels, experiment.split.train.labels
    assert len(validation) == round(share * len(data.train_labels))
    assert len(validation) + len(train) == len(data.train_labels)
    counts = [labels.bincount(minlength=10) for labels in (validation, train, data.train_labels)]
    assert torch.equal(counts[0] + counts[1], counts[2])
    everything = as_bytes(pad(data.train_images))
    kept, trained = as_bytes(experiment.split.validation.images), as_bytes(experiment.split.train.images)
    assert kept | trained == everything and not kept & trained
    assert not as_bytes(experiment.split.test.images) & everything
    seen = set()
    for step in range(3):
        x, _ = experiment.sampling.related(step)
        seen |= {image.numpy().tobytes() for image in ((x[:, 0] + 1) * 127.5).round().byte()}
    for x, _ in experiment.sampling.train_pairs(600):
        seen |= {image.numpy().tobytes() for image in ((x[:, 0] + 1) * 127.5).round().byte()}
    assert len(seen) > 500 and seen <= trained


def test_heads_never_see_validation_digits():
    for method in ("niso", "autoencoder"):  # features of all digits once, or images as they are drawn
        experiment = make(method, validation=0.5, head=Optimisation(steps=1_000, batch_size=8))
        _, head = experiment.phases()
        batch, labels = head.sampler(0)
        assert len(labels) == 8
        if method == "niso":
            known_features = features_of(experiment, experiment.split.train.images)
            assert all((known_features == row).all(-1).all(-1).any() for row in batch)


def test_validation_has_metrics_of_its_own_where_there_are_validation_digits(untrained):
    experiment = make(validation=0.01)
    validated = evaluated(experiment).metrics.keys()
    assert validated - untrained[1].metrics.keys() == {"accuracy_val", "accuracy_clean_val"}

    def classify(digits):  # all of the validation digits are right, all of the test digits wrong
        right = torch.full((len(digits),), digits is not experiment.test_set)
        return Scores(right, torch.arange(len(digits), dtype=torch.float32), "strength")

    experiment.classify = classify
    experiment.accuracy = lambda digits: float(len(digits.labels))
    result = experiment.evaluate().metrics
    assert result["accuracy"] == 0.0 and result["accuracy_val"] == 1.0
    assert (result["accuracy_clean"], result["accuracy_clean_val"]) == (7.0, 13.0)


def test_validation_digits_are_under_others_of_the_test_sets_homographies():
    """Not under those of training, which are wider, nor under the very ones of the test digits."""
    experiment, sets = make(validation=0.01), []
    list(experiment.phases())
    classify = experiment.classify
    experiment.classify = lambda digits: sets.append(digits) or classify(digits)
    experiment.evaluate()
    tested, validated = sets
    assert tested.action == validated.action == PUBLISHED_DISTRIBUTION != experiment.action
    assert (tested.transformations(0)[:8] != validated.transformations(0)[:8]).flatten(1).any(1).all()


def test_heads_see_digits_behind_occluders_where_a_run_is_about_them():
    clean, covered = (make(occlusion=occlusion).sampling.labelled(False)[0] for occlusion in (None, 0.5))
    assert is_padded_digit(clean).all() and not is_padded_digit(covered).all()


class OnePixel(Homographies):
    """All images are moved down by one pixel."""

    def sample(self, count, generator=None):
        assert count, "a user's own action may not give no transformation"
        moved = torch.eye(3, dtype=torch.float64).repeat(count, 1, 1)
        moved[:, 0, 2] = 2 / 23
        return moved


def test_strengths_of_homographies_are_in_pixels():
    images, action = torch.randint(256, (3, 24, 24), dtype=torch.uint8), OnePixel()
    digits = GeneratedTestSet(images, torch.arange(3), 1, action=action)
    moved = []

    def predict(x):
        moved.append(x)
        return torch.arange(len(x))

    scores = classification.classify(predict, digits, action, CPU)
    torch.testing.assert_close(moved[0][:, 0, 1:], signed(images)[:, :-1], atol=1e-5, rtol=0)
    torch.testing.assert_close(scores.strength, torch.ones(3))
    assert scores.correct.all() and "pixels" in scores.label
    warps = ElasticWarps()  # their strength is no displacement of corners
    digits = GeneratedTestSet(images, torch.arange(3), 1, action=warps)
    scores = classification.classify(predict, digits, warps, CPU)
    torch.testing.assert_close(scores.strength, warps.strength(digits.transformations(0)))
    assert scores.label == "strength of the transformation (half image sides, root mean square)"


class Halves(ElasticWarps):
    """Of another scale than homographies, whatever its unit is called."""

    unit = Homographies.unit


def test_strengths_of_other_actions_are_as_these_say():
    digits = GeneratedTestSet(torch.zeros(3, 24, 24, dtype=torch.uint8), torch.arange(3), 1, action=Halves())
    scores = classification.classify(lambda x: torch.arange(len(x)), digits, Halves(), CPU)
    torch.testing.assert_close(scores.strength, Halves().strength(digits.transformations(0)))
    assert scores.label == "strength of the transformation (half image sides)"


def test_strengths_are_those_of_the_action_that_is_tested_under():
    experiment = make()
    experiment.test_action, experiment.predict = Halves(), lambda x: torch.zeros(len(x), dtype=torch.long)
    digits = GeneratedTestSet(torch.zeros(3, 24, 24, dtype=torch.uint8), torch.arange(3), 1, action=Halves())
    scores = experiment.classify(digits)
    torch.testing.assert_close(scores.strength, Halves().strength(digits.transformations(0)))
    assert scores.label == "strength of the transformation (half image sides)"


@pytest.mark.parametrize("action", ["rotation", "shift", "colour", "mobius"])
def test_actions_are_those_of_images_of_the_digits_size(action):
    experiment = make(action=action)
    x, tx = experiment.sampling.related(0)
    assert tx.shape == x.shape and not torch.equal(x, tx) and experiment.test_action == experiment.action


def test_images_without_a_strength_are_left_out_of_the_curve():
    """Those of which a corner is behind the horizon."""
    strength = torch.tensor([torch.inf, 3.0, 1.0, 2.0])
    curve = classification.by_strength(Scores(torch.tensor([True, True, False, True]), strength, "strength"))
    assert (curve["x"], curve["y"], curve["count"]) == ([1, 2, 3], [0, 1, 1], [1, 1, 1])


def test_accuracies_are_of_the_digits_of_their_part():
    """A head that takes every digit for a one, where all test digits are ones, and no validation digit is."""
    experiment = make(validation=0.01, occlusion=0.3)
    list(experiment.phases())
    experiment.split.test.labels.fill_(1)
    experiment.split.validation.labels.fill_(0)
    experiment.predict = lambda x: torch.ones(len(x), dtype=torch.long)
    metrics = experiment.evaluate().metrics
    accuracies = {name: value for name, value in metrics.items() if name.startswith("accuracy")}
    assert accuracies.pop("accuracy_chance") == 1
    assert accuracies == {
        f"accuracy{kind}{part}": right for kind in ("", "_clean", "_covered") for part, right in (("", 1), ("_val", 0))
    }


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_keep_digits_apart_for_validation(preset):
    assert PRESETS[preset].validation == 0.1


# What methods are trained on


def test_methods_are_trained_on_what_they_need():
    views = {method: make(method).sampling.related(0) for method in METHODS}
    assert {method: len(view) for method, view in views.items()} == {
        method: METHODS.find(method).views for method in METHODS
    }
    for x, *transformed in views.values():
        assert is_padded_digit(x).all()
        assert not any(is_padded_digit(tx).any() for tx in transformed)


def test_first_views_are_transformed_on_request():
    views = make(first_view="transformed").sampling.related(0)
    assert not any(is_padded_digit(view).any() for view in views)


@pytest.mark.parametrize(("method", "changes"), [("niso-triplet", {}), ("niso", {"first_view": "transformed"})])
def test_what_cannot_be_applied_twice_is_refused(method, changes):
    needs = "--first-view transformed" if changes else method
    with pytest.raises(InputError, match=f"--action elastic cannot be applied twice, as {needs} needs it"):
        make(method, action="elastic", **changes)


def test_the_ablations_leave_one_term_out():
    expected = {
        "niso": (True, True, False, 1, False),
        "niso-triplet": (True, True, False, 1, True),
        "niso-group": (True, True, False, 4, True),
        "niso-contrastive": (True, True, True, 1, False),
        "niso-vicreg": (True, True, False, 1, True),
        "niso-group-vicreg": (True, True, False, 4, True),
        "niso-no-equivariance": (False, True, False, 1, False),
        "niso-no-multiplicity": (True, False, False, 1, False),
        "niso-no-operator": (True, False, False, 1, False),
    }
    for name, terms in expected.items():
        o = next(make(name).phases()).objective
        assert (o.equivariance > 0, o.multiplicity > 0, o.contrastive > 0, o.group, o.model.relative) == terms, name
    assert not next(make("niso-no-basis").phases()).objective.model.relative
    experiment = make("niso-contrastive")
    terms = next(experiment.phases()).objective(experiment.sampling.related(0), 0.0)
    total = terms["reconstruction"] + 0.5 * terms["equivariance"] + 0.01 * terms["multiplicity"]
    torch.testing.assert_close(terms["loss"], total + 0.1 * terms["contrastive"])


def test_the_fourier_baseline_has_the_same_sizes():
    sizes = {}
    for method in ("niso", "nft"):
        experiment = make(method)
        a = features_of(experiment, experiment.split.train.images[:3])
        _, _head = experiment.phases()
        tau = experiment.method.solve(a, a.flip(0))
        sizes[method] = tau.shape, a.shape, sum(p.numel() for p in experiment.head.parameters())
    assert sizes["niso"] == sizes["nft"]
    assert sizes["niso"][0] == (3, 8, 8)


def test_transformers_take_the_place_of_convolutions():
    experiment = make(
        architecture="vit", vit=replace(TINY.vit, patch=4, channels=8, heads=2, blocks=1, latent_channels=6)
    )
    assert experiment.method.grid == (6, 6)
    assert features_of(experiment, experiment.split.train.images[:3]).shape == (3, 8, 6)


def test_every_class_is_held_out_and_trained_on():
    """Also where labels come in turns, of which every tenth is of one class."""
    for labels in (torch.arange(200) % 10, torch.arange(200) // 20):
        index = spread_over_classes(20, labels)
        assert labels[index].bincount().tolist() == [2] * 10 and (index.diff() > 0).all()
    mixed = torch.randint(3, (99,), generator=torch.Generator().manual_seed(0))
    assert torch.equal(spread_over_classes(30, mixed), evenly(30, 99))
    assert len(spread_over_classes(0, mixed)) == 0 and len(spread_over_classes(99, mixed)) == 99


def test_test_digits_are_spread_evenly():
    data = embedded()
    experiment = make(test_digits=250)
    assert torch.equal(experiment.split.test.labels, data.test_labels[::2])
    assert len(make(test_digits=None).test_set) == 2 * len(data.test_labels)
    assert len(make(test_digits=10_000).test_set) == 2 * len(data.test_labels)


def test_pairs_share_their_homography_with_another_digit():
    experiment = make()
    (x, _, other, t_other), *rest = experiment.sampling.held_out(5)
    assert not rest
    images = signed(experiment.split.test.images)[:, None]
    assert torch.equal(x, images[[0, 1, 2, 4, 5]]) and torch.equal(other, images[[1, 2, 3, 5, 6]])
    assert len(next(experiment.sampling.held_out(100))[0]) == 7
    swapped = make()
    swapped.sampling.test = swapped.split.test._replace(images=swapped.split.test.images.roll(-1, 0))
    torch.testing.assert_close(t_other, next(swapped.sampling.held_out(5))[1])


def test_maps_are_repeated_under_the_same_transformation_twice():
    experiment = make()
    experiment.sampling.action, turned = QuarterTurns(), set[int]()
    for x, once, twice in experiment.sampling.held_out_twice(7):
        for views in zip(x[:, 0], once[:, 0], twice[:, 0], strict=True):
            (turns,) = (by for by in range(4) if torch.equal(views[0].rot90(by), views[1]))
            assert torch.equal(views[1].rot90(turns), views[2])
            turned.add(turns)
    assert len(turned) > 1


def test_maps_are_fitted_to_as_many_training_pairs_as_are_asked_for():
    experiment = make()
    batches = list(experiment.sampling.train_pairs(BATCH + 200))
    assert [len(x) for x, _ in batches] == [BATCH, 200]
    again = list(experiment.sampling.train_pairs(BATCH + 200))
    assert all(
        torch.equal(x, y) for one, other in zip(batches, again, strict=True) for x, y in zip(one, other, strict=True)
    )


def test_pair_metrics_are_of_the_held_out_pairs(untrained):
    experiment, result = untrained
    pairs = evaluate_pairs(experiment.method, experiment.sampling.held_out(5))
    assert pairs.metrics.items() <= result.metrics.items()
    assert result.pairs.views.keys() == pairs.views.keys()


FIGURES = ("accuracy", "digits", "maps", "repetition", "singular_values", "eigenfunctions", "mask", "mass")
"""In reading order."""


@pytest.mark.slow
def test_figures_stand_in_reading_order(drawn, untrained):
    assert drawn(Homnist, untrained[1]) == [*FIGURES]


def test_captions_name_the_transformation_that_there_is():
    captions = {picture.name: picture.caption for picture in Homnist.draw(evaluated(make(action="affine")))}
    assert "each transformed at random (affine)" in captions["digits"]
    assert not any("homograph" in caption for caption in captions.values())


@pytest.mark.parametrize(
    ("method", "lacking"),
    [
        ("niso-no-operator", {"mask"}),
        ("nft", {"eigenfunctions", "mask", "mass"}),
        ("autoencoder", {"maps", "repetition", "singular_values", "eigenfunctions", "mask", "mass"}),
    ],
)
def test_figures_are_of_what_a_method_has(method, lacking):
    names = [picture.name for picture in Homnist.draw(evaluated(make(method)))]
    assert names == [name for name in FIGURES if name not in lacking]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--method niso-grop", "did you mean niso-group?"),
        ("--method niso-group --batch-size 6", "a batch of 6 pairs cannot be cut into groups of 4: choose a multiple"),
        ("--method niso-group --occlusion 0.3 --completion.batch-size 6", "a batch of 6 pairs cannot be cut"),
        ("--head.batch-size 5 --head.accumulation 2", "batch size 5 does not divide among 1 processes in 2 parts each"),
        ("--method niso-contrastive --batch-size 1", "compare at least 2 pairs, and a step has 1: choose a larger"),
        ("--method niso-vicreg --batch-size 4 --accumulation 2", "compare at least 3 pairs, and a step has 2"),
        ("--digits mnist --data-dir nowhere", "data folder nowhere does not exist"),
        ("--rank 1000", "rank 1000 must lie between 1 and the number of points, 144: digits of 24×24 give"),
        ("--conv.channels 4 4 4 4 4", "image_size must be a height and a width divisible by 32"),
        ("--published", "--published needs MNIST"),
        ("--test-copies 33", "test_copies must lie between 1 and 32, got 33"),
        ("--test-digits 1", "test_digits must be at least 2, got 1"),
        ("--nft-epochs -1", "nft_epochs must not be negative, got -1"),
    ],
)
def test_a_wrong_call_is_refused(refused, tmp_path, options, message):
    out = tmp_path / "run"
    line = refused("run", "homnist", *options.split(), "--out", out)
    assert message in line
    assert not out.exists()


# What others report


def test_published_values_are_shares_of_methods_in_the_paper():
    methods = [entry.method for entry in Homnist.published if entry.method]
    assert "niso-group" not in methods and len(methods) == len(set(methods))
    for entry in Homnist.published:
        assert all(re.fullmatch(r"0\.\d+( ± 0\.\d+)?", value) for value in entry.values.values())


def test_what_is_known_of_an_experiment():
    assert known("homnist").published_of("niso-triplet")["accuracy"] == "0.9738 ± 0.0023"
    assert known("homnist").published_of("niso-group") == {}
    assert known("of another version").published == ()


def test_a_run_is_not_evaluated_on_other_digits(niso, refused, tmp_path, monkeypatch):
    """Nor on those that it was trained on: content decides, and neither the name nor the folder."""

    def bars(seed):
        images = torch.randint(256, (40, 12, 12), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
        labels = torch.arange(40) % 2
        return Digits(images[:24], labels[:24], images[24:], labels[24:])

    monkeypatch.setattr(sys.modules[__name__], "mine", partial(bars, 0), raising=False)
    monkeypatch.setitem(DIGITS, "mine", f"{__name__}.mine")
    words = "--digits mine --method niso --steps 2 --head.steps 2 --batch-size 4 --speed exact --evaluation-pairs 4"
    small = "--test-copies 1 --conv.channels 4 --conv.latent-channels 4 --conv.stem-channels 4 --rank 4 --conv.blocks 1"
    small += " --vector-neurons.channels 8 --vector-neurons.invariant-channels 8"
    run = tmp_path / "run"
    assert niso("run", "homnist", *words.split(), *small.split(), "--out", run).status == 0
    assert niso("evaluate", run).status == 0
    monkeypatch.setattr(sys.modules[__name__], "mine", partial(bars, 1))
    assert "its data has changed since it was trained" in refused("evaluate", run)
    facts = {key: value for key, value in Run(run).facts.items() if key != "content"}
    Run(run).write("facts", facts)  # as of a run by an earlier version
    assert niso("evaluate", run).status == 0
