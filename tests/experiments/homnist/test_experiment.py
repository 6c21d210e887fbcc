import json
import shutil
from dataclasses import replace

import pytest
import torch
from niso.experiments.homnist.methods import METHODS

from niso.config import Hardware, Optimisation
from niso.data.digits.mnist import digits, pad, signed
from niso.experiments.homnist.experiment import Homnist
from niso.experiments.homnist.presets import PRESETS
from niso.training import checkpoint
from niso.training.loop import train
from niso.training.processes import make_fabric
from niso.training.run import Run

CPU = torch.device("cpu")
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
)
FLAGS = (
    "--conv.channels 4 --conv.blocks 1 --rank 8 --steps 3 --batch-size 4 --head.steps 3 --head.batch-size 4 "
    "--nft-epochs 1 --nft-maps 8 --test-digits 5 --test-copies 1 --evaluation-pairs 3"
).split()


def make(method: str = "niso", **changes: object) -> Homnist:
    torch.manual_seed(0)
    return Homnist(replace(TINY, **changes), method, 0, None, CPU)


def trained(experiment: Homnist, folder) -> list[dict[str, torch.Tensor]]:
    """Trains all phases; the backbone's weights after each."""
    run, fabric = Run.create(folder, {}), make_fabric(Hardware(accelerator="cpu"))
    states = []
    for phase in experiment.phases():
        train(phase.objective, phase.sampler, phase.optimisation, run, fabric, phase.name)
        states.append({name: value.clone() for name, value in experiment.model.state_dict().items()})
    return states


def is_padded_digit(images: torch.Tensor) -> torch.Tensor:
    """Which images are training digits as they are."""
    known = signed(pad(digits().train_images)).flatten(1)
    return (images.flatten(1)[:, None] == known).all(-1).any(-1)


@pytest.mark.parametrize("method", METHODS)
def test_the_head_leaves_the_backbone_as_it_is(tmp_path, method):
    experiment = make(method)
    before, after = trained(experiment, tmp_path / "run")
    assert before.keys() == after.keys()
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    assert changed == (["basis"] if method.startswith("nft") else [])  # diagonalised between the phases
    figures = experiment.evaluate()
    own = {"equivariance_error", "equivariance_error_centred", "relative_map_error"}
    always = {"accuracy", "accuracy_clean", "reconstruction_error", "test_images"}
    assert figures.keys() == (always if method == "autoencoder" else always | own)
    assert figures["test_images"] == 14
    assert all(value == value and value >= 0 for value in figures.values())


@pytest.mark.parametrize("method", ["niso", "autoencoder"])
def test_only_the_autoencoders_head_sees_homographies(method):
    experiment = make(method)
    _, head = experiment.phases()
    images, labels = head.sampler(0)
    assert images.shape == (4, 1, 24, 24) and labels.shape == (4,)
    assert is_padded_digit(images).all() == (method == "niso")
    assert not any(parameter.requires_grad for parameter in experiment.model.parameters())


def test_features_are_computed_once_where_that_is_less_work():
    experiment = make(head=Optimisation(steps=1_000, batch_size=4))
    _, head = experiment.phases()
    torch.manual_seed(3)
    features, labels = head.sampler(0)
    torch.manual_seed(3)
    index = torch.randint(len(experiment.train_labels), (4,))
    assert torch.equal(labels, experiment.train_labels[index])
    torch.testing.assert_close(features, experiment.encode(experiment.train_images[index]))
    loss = head.objective((features, labels), 0.0)["loss"]
    experiment.model.eval()
    expected = torch.nn.functional.cross_entropy(experiment.head(features), labels)
    torch.testing.assert_close(loss, expected)


def test_the_scale_of_latents_makes_no_difference_to_the_head():
    scores = []
    for factor in (1.0, 1e-3):
        experiment = make()
        experiment.model.encoder.layers[-1].weight.data.mul_(factor)
        torch.manual_seed(0)
        list(experiment.phases())
        scores.append(experiment.head(experiment.encode(experiment.train_images[:3])))
    torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", ["niso", "autoencoder"])
def test_in_half_precision_features_are_not(tmp_path, method):
    experiment, fabric = make(method), make_fabric(Hardware(accelerator="cpu", precision="bf16-mixed"))
    experiment.autocast, run = fabric.autocast, Run.create(tmp_path / "run", {})
    for phase in experiment.phases():
        train(phase.objective, phase.sampler, phase.optimisation, run, fabric, phase.name)
    assert experiment.encode(experiment.test_images).dtype == torch.float32
    assert 0 <= experiment.evaluate()["accuracy"] <= 1


def test_the_curve_is_of_the_accuracy():
    experiment = make()
    list(experiment.phases())
    accuracy = experiment.evaluate()["accuracy"]
    curve = experiment.curves()["accuracy_by_strength"]
    assert sum(curve["count"]) == 14 and curve["x"] == sorted(curve["x"])
    mean = sum(y * count for y, count in zip(curve["y"], curve["count"], strict=True)) / 14
    assert mean == pytest.approx(accuracy)
    assert json.loads(json.dumps(curve)) == curve


def test_methods_are_trained_on_what_they_need():
    views = {method: make(method).sample(0) for method in METHODS}
    assert {method: len(view) for method, view in views.items() if len(view) != 2} == {
        "niso-triplet": 3,
        "nft-triplet": 3,
    }
    for x, *transformed in views.values():
        assert is_padded_digit(x).all()
        assert not any(is_padded_digit(tx).any() for tx in transformed)


def test_the_ablations_leave_one_term_out():
    objectives = {method: next(make(method).phases()).objective for method in METHODS if method.startswith("niso")}
    weights = {
        name: (o.equivariance > 0, o.multiplicity > 0, o.contrastive > 0, o.group, o.model.relative)
        for name, o in objectives.items()
    }
    assert weights == {
        "niso": (True, True, False, 1, False),
        "niso-triplet": (True, True, False, 1, True),
        "niso-group": (True, True, False, 4, True),
        "niso-contrastive": (True, True, True, 1, False),
        "niso-no-equivariance": (False, True, False, 1, False),
        "niso-no-multiplicity": (True, False, False, 1, False),
    }
    batch = make("niso-contrastive").sample(0)
    terms = objectives["niso-contrastive"](batch, 0.0)
    total = terms["reconstruction"] + 0.5 * terms["equivariance"] + 0.01 * terms["multiplicity"]
    torch.testing.assert_close(terms["loss"], total + 0.1 * terms["contrastive"])


def test_the_fourier_baseline_has_the_same_sizes():
    sizes = {}
    for method in ("niso", "nft"):
        experiment = make(method)
        x = experiment.encode(experiment.train_images[:3])
        _, _head = experiment.phases()
        sizes[method] = experiment.maps(3).shape, x.shape, sum(p.numel() for p in experiment.head.parameters())
    assert sizes["niso"] == sizes["nft"]
    assert sizes["niso"][0] == (3, 8, 8)


def test_the_tall_fourier_latent_has_all_points():
    experiment = make("nft", nft_tall=True, nft_epochs=0)
    assert experiment.maps(3).shape == (3, 6, 6)
    assert experiment.encode(experiment.train_images[:3]).shape == (3, 6, 144)
    assert len(list(experiment.phases())) == 2


def test_transformers_take_the_place_of_convolutions():
    experiment = make(
        architecture="vit", vit=replace(TINY.vit, patch=4, channels=8, heads=2, blocks=1, latent_channels=6)
    )
    assert experiment.grid == (6, 6)
    assert experiment.encode(experiment.train_images[:3]).shape == (3, 8, 6)


def test_test_digits_are_spread_evenly():
    data = digits()
    experiment = make(test_digits=250)
    assert torch.equal(experiment.test_labels, data.test_labels[::2])
    assert len(make(test_digits=None).test_set) == 2 * len(data.test_labels)
    assert len(make(test_digits=10_000).test_set) == 2 * len(data.test_labels)


def test_evaluation_does_not_depend_on_the_random_state():
    experiment = make()
    list(experiment.phases())
    figures = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        figures.append(experiment.evaluate())
    assert figures[0] == figures[1]


def test_pairs_share_their_homography_with_another_digit():
    experiment = make()
    pairs = experiment.pairs(5)
    images = signed(experiment.test_images)[:, None]
    assert torch.equal(pairs.x, images[[0, 1, 2, 4, 5]]) and torch.equal(pairs.other, images[[1, 2, 3, 5, 6]])
    assert len(experiment.pairs(100).x) == 7
    swapped = make()
    swapped.test_images = swapped.test_images.roll(-1, 0)
    torch.testing.assert_close(pairs.t_other, swapped.pairs(5).tx)


@pytest.mark.parametrize("method", ["niso", "nft", "autoencoder"])
def test_an_interrupted_head_is_trained_as_if_nothing_had_happened(niso, tmp_path, method):
    whole, again = tmp_path / "whole", tmp_path / "again"
    status, _, err = niso("run", "homnist", *FLAGS, "--method", method, "--out", whole)
    assert status == 0, err
    shutil.copytree(whole, again)
    for name in ("metrics.json", "checkpoints/head.safetensors"):
        (again / name).unlink()
    assert niso("resume", again).status == 0
    first, second = (checkpoint.load(run / "checkpoints" / "head.safetensors")[0] for run in (whole, again))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    figures = [json.loads((run / "metrics.json").read_text()) for run in (whole, again)]
    assert figures[0].keys() == figures[1].keys()
    differing = [key for key in figures[0] if figures[0][key] != figures[1][key]]
    assert all(key.startswith("seconds") for key in differing)
    assert figures[0]["seconds"] == pytest.approx(figures[0]["seconds_pretrain"] + figures[0]["seconds_head"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--method niso-grop", "did you mean niso-group?"),
        ("--method niso-group --batch-size 6", "a batch of 6 pairs cannot be cut into groups of 4: choose a multiple"),
        ("--digits mnist --data-dir nowhere", "data folder nowhere does not exist"),
        ("--rank 1000", "rank 1000 must lie between 1 and the number of points"),
        ("--conv.channels 4 4 4 4 4", "image_size must be a height and a width divisible by 32"),
        ("--published", "--published needs MNIST"),
        ("--test-copies 33", "test_copies must lie between 1 and 32, got 33"),
        ("--test-digits 0", "test_digits must be at least 1, got 0"),
        ("--nft-epochs -1", "nft_epochs must not be negative, got -1"),
    ],
)
def test_a_wrong_call_is_refused(refused, tmp_path, options, message):
    out = tmp_path / "run"
    line = refused("run", "homnist", *options.split(), "--out", out)
    assert message in line
    assert not out.exists()
