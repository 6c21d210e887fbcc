"""The pose experiment on small prepared folders: what methods are trained on, and what comes out."""

import math
import re
from dataclasses import replace
from functools import partial

import pytest
import torch

from niso.config import Optimisation
from niso.data.video.prepared import PreparedFrames
from niso.errors import InputError
from niso.experiments.pose import baselines, cases, passing, rooms
from niso.experiments.pose import evaluation as pose_evaluation
from niso.experiments.pose.experiment import MAP_SKIPS, Pose
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.pairs import Pairs
from niso.experiments.pose.predictors.constant_motion import ConstantMotion
from niso.experiments.pose.presets import PAPER, PRESETS, RELEASED, PoseConfig
from niso.experiments.pose.sampling import PairSampling
from niso.geometry import se3
from niso.geometry import trajectories as trajectory
from niso.geometry.trajectories import SKIPS
from niso.methods import METHODS
from niso.methods.evaluation.latents import INVARIANT_METRICS, MASK_METRICS
from niso.methods.fourier import NeuralFourierTransform
from niso.methods.orthogonal import orthogonal_map
from niso.networks import MLPConfig
from tests.experiments.alike import ALIKE

DESCRIBED = {metric.key for metric in Pose.metrics}
VALIDATION = {metric.key for metric in pose_evaluation.VALIDATION_METRICS}
BETWEEN_ROOMS = {metric.key for metric in rooms.METRICS}
COVERED = {metric.key for metric in passing.METRICS}
TRAJECTORIES = ("errors", "trajectories_skip1", "trajectories_skip5", "failures", "failures_pairs")
MAPS = ("frames", "maps", "singular_values")
PICTURES = {
    "niso": [*TRAJECTORIES, *MAPS, "eigenfunctions", "mask", "mass"],
    "nft": [*TRAJECTORIES, *MAPS],
    "vit": [*TRAJECTORIES],
}
MODELS = ("dinov2", "beit")
"""Of others, which are not at hand."""
FEW = [method for method in Pose.methods() if method not in (*MODELS, *ALIKE.keys() - {"niso-group"})]
"""One of each kind; of niso-group, rendered clips."""


def step(experiment: Pose) -> None:
    """One step of each phase, without its update; the loop is tested elsewhere."""
    for phase in experiment.phases():
        terms = phase.objective(phase.sampler(0), 0.0)
        terms["loss"].backward()
        assert all(value.isfinite() for value in terms.values())


@pytest.mark.parametrize("method", FEW)
def test_results_are_those_described(make, drawn, method):
    experiment = make(method)
    list(experiment.phases())
    result = experiment.evaluate()
    described = DESCRIBED - VALIDATION - COVERED
    if not method.startswith("niso-group"):  # there are no rendered clips
        described = described - BETWEEN_ROOMS
    parts = ("equivariance", "reconstruction", "latent", "invariants", "composition")
    of_maps = {name for name in described if name.removeprefix("identity_").startswith(parts)}
    if method not in METHODS or experiment.method.mask() is None:
        described = described - {metric.key for metric in MASK_METRICS}
    if method in METHODS and not experiment.method.has_invariants:
        described = described - {metric.key for metric in INVARIANT_METRICS}
    assert result.metrics.keys() == (described if method in METHODS else described - of_maps)
    assert all(math.isfinite(value) and value >= 0 for value in result.metrics.values())
    assert all(result.metrics[f"sequences_skip{skip}"] == 2 for skip in SKIPS)
    if method in ("niso-group", "nft", "vit"):  # of each other kind one, and of niso tests/experiments/test_runs.py
        torch.manual_seed(5)
        assert experiment.evaluate().metrics == result.metrics
    assert (result.pairs is None) == (method not in METHODS)
    assert set(result.maps) == (set(MAP_SKIPS) if method in METHODS else set())
    assert (result.operator is None) == (method in ("niso-no-basis", "nft") or method not in METHODS)
    curve = result.curves["ate_by_skip"]
    assert curve["x"] == list(SKIPS) and curve["y"][1] == result.metrics["ate_normalised_skip1"]
    if method in PICTURES:  # without maps or an operator there are fewer
        pictures = drawn(Pose, result) if method == "niso" else [picture.name for picture in Pose.draw(result)]
        assert pictures == PICTURES[method]


def test_each_metric_is_described_once():
    assert len(DESCRIBED) == len(Pose.metrics)
    better = {metric.key: metric.better for metric in Pose.metrics}
    assert better["ate_skip1"] == better["ate_normalised_val_skip1"] == better["equivariance_error"] == "lower"
    assert better["sequences_skip1"] is None


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", ["nft", "vit"])
def test_presets_can_be_trained(make, tiny_pose, preset, method):
    """Everything but sizes is the preset's. By the first method each is trained in tests/experiments/test_runs.py."""
    sizes = ("size", "conv", "transformer", "rank", "nft_epochs", "nft_maps", "mlp", "evaluation_pairs")
    changes = {name: getattr(tiny_pose, name) for name in sizes}
    settings = PRESETS[preset]
    batches = {name: replace(getattr(settings, name), batch_size=8, steps=2) for name in ("training", "head")}
    step(make(method, **{**vars(settings), **changes, **batches}))


def test_constant_motion_is_the_line_that_all_methods_are_compared_with(make, train_all):
    experiment = make("constant-motion")
    train_all(experiment)
    metrics = experiment.evaluate().metrics
    for skip in SKIPS:
        for key in ("ate", "ate_normalised", "ate_sim3"):
            other = f"constant_motion_{key}_skip{skip}"
            assert metrics[f"{key}_skip{skip}"] == pytest.approx(metrics[other], rel=1e-4)


def test_training_pairs_decide_the_sign_of_translations(random_poses):
    predictor, frames = ConstantMotion(), torch.zeros(6, 1)
    truth = random_poses(6)
    truth[:, :3, 3] = torch.tensor([0.0, 0.1, -1.0])
    for _ in range(2):
        predictor.orient([(frames, frames, truth)])
        assert predictor(frames, frames)[:, 2, 3].max() < 0


def test_a_trained_head_is_oriented_without_the_features_of_all_frames(make):
    experiment, seen = make(), list[int]()
    frames, steps, pairs = experiment.frames, experiment.config.head.steps, experiment.config.head.batch_size

    def features(images):
        seen.append(len(images))
        return images.flatten(1)

    sampler, prepare = experiment.sampling.head(features, 3 * frames.size**2)
    alone = sampler(steps)
    assert sum(seen) == 2 * pairs
    prepare()
    assert sum(seen) == 2 * pairs + frames.lengths[experiment.split.posed].sum()
    for one, other in zip(alone, sampler(steps), strict=True):
        assert torch.equal(one, other)


def test_pairs_that_decide_the_sign_run_forwards(make):
    """A constant prediction has the same error in both directions; an evaluation asks for one."""
    experiment = make("constant-motion", backwards=True)
    steps = experiment.config.head.steps
    assert not all((pairs.second > pairs.first).all() for pairs in map(experiment.sampling.head_pairs, range(steps)))
    for step in range(steps, steps + 9):
        pairs = experiment.sampling.head_pairs(step)
        assert (pairs.second > pairs.first).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_direction_of_driving_is_not_reversed(make, train_all, seed):
    """Training sequences turn right, those to test on turn left; all drive forwards."""
    experiment = make("constant-motion", **{"head": Optimisation(steps=30, batch_size=8, learning_rate=1e-2)})
    experiment.sampling.seed = seed
    for number, poses in enumerate(experiment.frames.poses):
        if poses is not None:
            turn = 0.02 if experiment.frames.splits[number] == "train" else -0.02
            step = se3.exp(torch.tensor([0, 0, 1.0 + number, 0, turn, 0], dtype=torch.float64))
            experiment.frames.poses[number] = trajectory.compose(step.expand(len(poses) - 1, 4, 4))
    experiment.sampling.poses, experiment.sampling.starts = experiment.frames.all_poses()
    train_all(experiment)
    metrics = experiment.evaluate().metrics
    for skip in SKIPS:
        assert metrics[f"translation_angle_deg_skip{skip}"] < 30
        turned = 0.02 * (skip + 1) * 180 / math.pi
        assert metrics[f"identity_rotation_error_deg_skip{skip}"] == pytest.approx(turned)
        assert metrics[f"fitted_motion_rotation_error_deg_skip{skip}"] == pytest.approx(2 * turned)
        assert metrics[f"straight_ahead_translation_angle_deg_skip{skip}"] == pytest.approx(turned / 2)
        assert metrics[f"fitted_motion_translation_angle_deg_skip{skip}"] == pytest.approx(turned)
        assert metrics[f"fitted_motion_ate_normalised_skip{skip}"] < 1e-6  # a mirror image, which ATE allows


def test_no_preset_trains_the_head_on_reversed_pairs():
    assert not any(config.backwards for config in PRESETS.values())


def test_reversed_directions_are_a_finding():
    for key in ("translation_angle_deg_skip1", "translation_angle_deg_averaged_val_skip9"):
        others = {"translation_angle_deg_skip0": 80.0, "fitted_motion_translation_angle_deg_skip0": 120.0}
        (finding,) = Pose.findings(others | {key: 164.0, "rotation_error_deg_skip0": 170.0}, "niso")
        assert finding.bad and "nearer to the opposite" in finding.name and "164 (not ≤ 90)" in finding.measure
        assert "--no-backwards" in finding.remedy
        (finding,) = Pose.findings(others | {key: 90.0}, "niso")
        assert not finding.bad and "90 (≤ 90)" in finding.measure
    assert not Pose.findings({"fitted_motion_translation_angle_deg_skip0": 120.0}, "niso")


@pytest.mark.slow
def test_rendered_and_mirrored_sequences_have_their_share(make, clips):
    large = Optimisation(steps=2, batch_size=4_800)
    experiment = make(rendered=0.25, mirrored=True, training=large, head=large, **clips)
    frames, names = experiment.frames, experiment.frames.names
    split, sampling = experiment.split, experiment.sampling
    pretraining_pairs = partial(sampling.pretraining_pairs, size=large.batch_size)
    for members, pairs in ((split.train, pretraining_pairs), (split.posed, sampling.head_pairs)):
        assert sum(frames.splits[number] == "rendered" for number in members) == 6
        drawn = pairs(0).sequence
        rendered = torch.tensor([frames.splits[number] == "rendered" for number in drawn])
        assert abs(rendered.float().mean() - 0.25) < 0.05
        assert abs(frames.mirrored[drawn].float().mean() - 0.5) < 0.05
        assert set(drawn.tolist()) == set(members.tolist())
    assert not any("mirrored" in name or "clip" in name for name in experiment.facts()["train_sequences"])
    for number in split.posed[~frames.mirrored[split.posed]].tolist():
        twin = names.index(f"{names[number]} mirrored")  # its camera turns and moves the other way
        one, other = sampling.motions(Pairs(torch.tensor([number, twin]), *torch.tensor([[2, 2], [7, 7]])))
        flip = torch.diag(torch.tensor([-1.0, 1, 1, 1]))
        torch.testing.assert_close(other, flip @ one @ flip)
    alone = make(rendered=1.0, mirrored=True, head=replace(large, batch_size=160), **clips)
    drawn = alone.sampling.head_pairs(0).sequence
    assert all(frames.splits[number] == "rendered" for number in drawn)


def test_rendered_and_mirrored_sequences_are_trained_on(make, clips, train_all):
    experiment = make(rendered=0.25, mirrored=True, **clips)
    train_all(experiment)
    assert all(math.isfinite(value) for value in experiment.evaluate().metrics.values())


def test_rendered_clips_are_mixed_with_other_data_only(tiny_pose):
    with pytest.raises(InputError, match="--rendered mixes rendered clips with other data: give that by --data-dir"):
        Pose(replace(tiny_pose, rendered=0.5), "niso", 0, None, torch.device("cpu"))


@pytest.mark.slow
def test_footage_without_poses_is_pre_trained_on_along_with_rendered_clips(make, clips, train_all, monkeypatch):
    described = PreparedFrames.described

    def without_cameras(frames, number):
        poses, words = described(frames, number)
        return poses * torch.nan, words

    monkeypatch.setattr(PreparedFrames, "described", without_cameras)
    with pytest.raises(InputError, match=r"has no sequence with camera poses, .*: --rendered 0\.5 adds"):
        make()
    experiment = make(rendered=0.5, validation=0.4, **clips)
    names, splits = experiment.frames.names, experiment.frames.splits
    assert {splits[number] for number in experiment.split.train} == {"train", "rendered"}
    assert {splits[number] for number in experiment.split.posed} == {"rendered"}
    assert not experiment.frames.mirrored[experiment.split.footage].any()
    assert {names[number] for number in experiment.split.evaluated.members[0]} == {"orbit/test000", "walk/test001"}
    assert experiment.facts()["validation_sequences"] == ["orbit/train000"]
    train_all(experiment)
    metrics = experiment.evaluate().metrics
    assert metrics["sequences_skip0"] == 2 and "ate_normalised_val_skip0" in metrics


@pytest.mark.parametrize(("method", "memory"), [("niso", 1.0), ("niso", 0.0), ("nft", 1.0), ("vit", 1.0)])
def test_nothing_is_trained_on_validation_sequences(make, clips, train_all, monkeypatch, method, memory):
    """Neither as they are nor mirrored; pre-training, its sequel, the scale of maps, the head and the sign of poses."""
    read = list[str]()
    original = Frames.read

    def recorded(frames, sequence, frame):
        read.extend(frames.names[number] for number in sequence.tolist())
        return original(frames, sequence, frame)

    monkeypatch.setattr(Frames, "read", recorded)
    large = Optimisation(steps=2, batch_size=64)
    experiment = make(
        method, validation=0.34, mirrored=True, rendered=0.25, training=large, head=large, memory=memory, **clips
    )
    facts = experiment.facts()
    assert facts["validation_sequences"] == ["train0"] and facts["train_sequences"] == ["blind", "train1", "train2"]
    train_all(experiment)
    footage = {name.removesuffix(" mirrored") for name in read if "/" not in name}
    assert footage == ({"train1", "train2"} if method == "vit" else {"blind", "train1", "train2"})
    assert "train1 mirrored" in read and any("/train" in name for name in read)
    drawn = torch.cat([experiment.sampling.head_pairs(n).sequence for n in range(5)])
    assert not any(experiment.frames.names[number].startswith("train0") for number in drawn)


def test_validation_metrics_are_those_of_validation_sequences(make):
    experiment = make(validation=0.34)
    list(experiment.phases())
    metrics = experiment.evaluate().metrics
    assert VALIDATION == {f"{key}_val_skip{skip}" for key in pose_evaluation.VALIDATED for skip in SKIPS}
    assert VALIDATION < metrics.keys()
    number = experiment.frames.names.index("train0")
    tested = pose_evaluation.Evaluable({skip: [number] for skip in SKIPS}, {})
    skip = experiment.config.head_skip
    expected = pose_evaluation.evaluate(experiment.predictor, experiment.frames, tested, head_skip=skip).metrics
    for key in VALIDATION:
        assert metrics[key] == expected[key.replace("_val", "")]


class Indexed(Frames):
    """Frames that hold nothing but their place."""

    def __call__(self, sequence, frame):
        place = torch.stack([sequence, frame], dim=1).float()
        return place[:, :, None, None].expand(-1, -1, 3, 3)


class Oracle(ConstantMotion):
    """The true motions."""

    def __init__(self, frames: Frames) -> None:
        super().__init__()
        self.frames = frames

    def features(self, frames):
        return frames[:, :, 0, 0]

    def forward(self, first, second):
        poses = [[self.frames.poses[int(s)][int(f)] for s, f in view.tolist()] for view in (first, second)]
        return se3.relative(*map(torch.stack, poses)).float()


def test_true_motions_have_no_error(make):
    experiment = make()
    frames = experiment.frames
    frames.__class__ = Indexed
    metrics = pose_evaluation.evaluate(Oracle(frames), frames, experiment.split.evaluated).metrics
    for skip in SKIPS:
        assert metrics[f"ate_normalised_skip{skip}"] < 1e-5 < metrics[f"constant_motion_ate_normalised_skip{skip}"]
        assert metrics[f"rotation_error_deg_skip{skip}"] < 0.05
        assert metrics[f"translation_angle_deg_skip{skip}"] < 0.01


class Watched(Oracle):
    """The true motions, and how far apart the frames are that were looked at."""

    def __init__(self, frames: Frames) -> None:
        super().__init__(frames)
        self.apart = set[int]()

    def forward(self, first, second):
        self.apart |= set((second - first)[:, 1].int().tolist())
        return super().forward(first, second)


def test_averages_are_of_pairs_up_to_the_furthest_that_the_head_was_trained_on(make):
    frames, evaluated = (experiment := make()).frames, experiment.split.evaluated
    frames.__class__ = Indexed
    for skip, furthest in ((0, 6), (1, 6), (3, 4), (5, 6)):
        alone = {other: members if other == skip else [] for other, members in evaluated.members.items()}
        predictor = Watched(frames)
        pose_evaluation.evaluate(predictor, frames, pose_evaluation.Evaluable(alone, {}), head_skip=5)
        assert predictor.apart == set(range(skip + 1, furthest + 1, skip + 1))


class Astray(Oracle):
    """The true motions but of one pair of one sequence, which turns by 60° more."""

    def __init__(self, frames: Frames, sequence: int, frame: int) -> None:
        super().__init__(frames)
        self.pair = torch.tensor([sequence, frame])

    def forward(self, first, second):
        poses = super().forward(first, second)
        wrong = (first.int() == self.pair).all(1)
        poses[wrong] = poses[wrong] @ se3.exp(torch.tensor([0, 0, 0, 0, math.pi / 3, 0]))
        return poses


def test_failures_are_those_of_the_worst_sequence_and_its_worst_pair(make):
    frames, evaluated = (experiment := make()).frames, experiment.split.evaluated
    frames.__class__ = Indexed
    bad, good = evaluated.sequences
    results = pose_evaluation.evaluate(Astray(frames, bad, 4), frames, evaluated)
    found = cases.shown(frames, results)
    right, wrong = found.paths[1]
    assert (right.title, wrong.title) == (frames.names[good], frames.names[bad])
    assert right.error < 1e-5 < 0.01 < wrong.error
    torch.testing.assert_close(right.truth, frames.poses[good][::2, :3, 3])
    torch.testing.assert_close(right.predicted, right.truth, atol=1e-4, rtol=0)
    assert [path.title for path, _ in found.worst] == [wrong.title, right.title]
    title, strip = found.pairs[0]
    assert title.startswith(frames.names[bad]) and "off by 60°" in title
    images = frames.read(torch.tensor([bad, bad]), torch.tensor([4, 6]))
    assert (strip == images.permute(0, 2, 3, 1).numpy() / 255).all()


def test_each_sequence_counts_alike_in_the_mean_motion_whatever_its_unit(make):
    experiment = make()
    frames, members = experiment.frames, experiment.split.footage
    motions = baselines.fitted(frames, members)
    first = int(members[0])
    frames.poses[first] = frames.poses[first].clone()
    frames.poses[first][:, :3, 3] *= 1000
    for skip, motion in baselines.fitted(frames, members).items():
        torch.testing.assert_close(motion, motions[skip])
        assert 0 < motion[:3, 3].norm() <= 1 + 1e-9


@pytest.mark.parametrize("skips", [SKIPS, (1,), (3, 5)])
def test_a_pair_of_frames_that_several_skips_share_is_predicted_once(skips):
    frames, called = torch.arange(3 * pose_evaluation.BATCH), list[int]()

    def number(first, second):
        called.extend((1_000 * first + second).tolist())
        return 1_000 * first + second

    reach = {skip: 12 // (skip + 1) for skip in skips}
    found = pose_evaluation.between(number, frames, reach)
    assert len(called) == len(set(called))
    for skip, most in reach.items():
        kept = frames[:: skip + 1]
        assert list(found[skip]) == list(range(1, most + 1))
        for apart, numbers in found[skip].items():
            assert torch.equal(numbers, 1_000 * kept[:-apart] + kept[apart:])
    assert pose_evaluation.between(lambda first, second: None, frames, reach) == {skip: {} for skip in skips}


class Turning(ConstantMotion):
    """Features are rotations, and maps those from one to another."""

    def maps(self, first, second):
        return second @ first.mT


@pytest.mark.parametrize("skip", [0, 2])
def test_maps_of_three_frames_are_composed_in_their_order(generator, random_poses, skip):
    turns = se3.rotation(random_poses(12, generator))
    maps = pose_evaluation.between(Turning().maps, turns, {skip: 2})[skip]
    errors = pose_evaluation._map_errors(turns[:: skip + 1], maps)
    assert errors["equivariance_error"].max() < 1e-6 and errors["composition_error"].max() < 1e-6
    assert errors["identity_composition_error"].min() > 1e-3


@pytest.mark.parametrize("method", ["niso", "niso-no-basis", "nft"])
def test_the_method_is_frozen_while_the_head_is_trained(make, train_all, method):
    experiment = make(method)
    (start, before), (head, after) = train_all(experiment)
    assert isinstance(experiment.method.model, NeuralFourierTransform) == (method == "nft")
    assert any(not torch.equal(start[name], before[name]) for name in start)
    for name, value in before.items():
        if name != "model.basis":  # of the NFT's diagonalisation, between the phases
            assert torch.equal(after[f"predictor.{name}"], value), name
    moved = {name for name in head if not torch.equal(head[name], after[name])}
    assert moved - {"predictor.orientation"} == {name for name in head if name.startswith("predictor.head.")}


@pytest.mark.parametrize("memory", [1.0, 0.0])
def test_pre_training_computes_no_poses(make, monkeypatch, memory):
    experiment, asked = make(memory=memory), list[Pairs]()

    def motions(pairs):
        asked.append(pairs)
        return PairSampling.motions(experiment.sampling, pairs)

    monkeypatch.setattr(experiment.sampling, "motions", motions)
    phases = experiment.phases()
    assert [tuple(view.shape) for view in next(phases).sampler(0)] == [(4, 3, 8, 8)] * 2
    head = next(phases)  # after what follows pre-training
    assert not asked
    assert len(head.sampler(0)) == 3 and len(asked) == 1


@pytest.mark.parametrize("method", ["niso", "niso-no-basis", "nft", "vit"])
def test_networks_run_in_the_precision_of_the_run_outside_of_training_too(make, method):
    """For the maps that follow pre-training, the scale of the head's input, the sign of poses, and all metrics."""
    experiment = make(method, precision=lambda: torch.autocast("cpu", torch.bfloat16))
    outputs: dict[str, set[torch.dtype]] = {}

    def watch(name, module):
        outputs[name] = set()
        module.register_forward_hook(lambda module, inputs, output: outputs[name].add(output.dtype))

    if method in METHODS:
        watch("encoder", experiment.method.model.encoder)
        watch("decoder", experiment.method.model.decoder)
    for phase in experiment.phases():
        if phase.name == "head":
            watch("head", experiment.predictor.head if method in METHODS else experiment.predictor.network)
    experiment.evaluate()
    assert all(types == {torch.bfloat16} for types in outputs.values()), outputs


def test_without_the_operator_maps_are_orthogonal_and_nothing_more(make):
    experiment, whole = make("niso-no-operator"), make()
    assert (experiment.method.model.mask, whole.method.model.mask) == (None, "soft")
    objective, other = (next(one.phases()).objective for one in (experiment, whole))
    assert objective.multiplicity == 0 < other.multiplicity == experiment.config.multiplicity
    with torch.no_grad():
        a, b = map(experiment.method.encode, next(experiment.sampling.train_pairs(3)))
        tau = experiment.method.solve(*map(experiment.method.encode, next(experiment.held_out(3))))
    torch.testing.assert_close(tau @ tau.mT, torch.eye(8).expand(3, 8, 8), atol=1e-5, rtol=0)
    assert a.shape == b.shape == (3, 8, 6)


@pytest.mark.parametrize("method", ["niso", "niso-no-operator"])
def test_maps_of_coefficients_are_those_of_frames(make, method):
    experiment = make(method)
    solve, encode = experiment.method.solve, experiment.method.encode
    x, tx = next(experiment.held_out(4))
    with torch.no_grad():
        tau = solve(encode(x), encode(tx))
        torch.testing.assert_close(tau, experiment.method.model.map_between(x, tx), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("standardise", [False, True])
def test_heads_see_maps_as_they_are_or_standardised(make, monkeypatch, complete, standardise):
    a, b = torch.randn(2, 5, 64, 6, generator=torch.Generator().manual_seed(0))
    experiment = make("niso-no-basis", complete=complete, standardise=standardise)
    predictor = experiment.predictor
    monkeypatch.setattr(experiment.method, "encode", lambda coefficients: coefficients)
    predictor.complete([(a[:2], b[:2]), (a[2:], b[2:])])
    seen = list[torch.Tensor]()
    predictor.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    predictor.numbers(a, b)
    expected = orthogonal_map(a, b, complete)
    if standardise:
        expected = expected - expected.mean(0)
        expected = expected / expected.square().mean().sqrt()
    torch.testing.assert_close(seen[0], expected)


def test_completion_sees_other_pairs_than_pretraining(make):
    few = Optimisation(steps=2, batch_size=8)
    sampling = make(training=few, completion=few).sampling
    one, other = sampling.pretraining()(0)[0], sampling.completion()(0)[0]
    assert one.shape == other.shape and not torch.equal(one, other)


def test_heads_see_posed_sequences_of_the_training_split(make):
    experiment = make(head=Optimisation(steps=2, batch_size=400))
    sampling, train = experiment.sampling, experiment.split.train.tolist()
    names = [experiment.frames.names[number] for number in sampling.head_pairs(0).sequence.unique().tolist()]
    assert names == ["train0", "train1", "train2"]
    assert experiment.frames.names.index("blind") in train
    assert set(sampling.pretraining_pairs(0, 4).sequence.tolist()) <= set(train)
    pairs = sampling.head_pairs(1)
    motions = sampling.motions(pairs)
    poses = [experiment.frames.poses[number] for number in pairs.sequence.tolist()]
    second = torch.stack([pose[frame] for pose, frame in zip(poses, pairs.second.tolist(), strict=True)])
    first = torch.stack([pose[frame] for pose, frame in zip(poses, pairs.first.tolist(), strict=True)])
    torch.testing.assert_close(first.float() @ motions, second.float(), atol=1e-5, rtol=0)


def test_processes_take_consecutive_parts_of_the_same_batch(make, monkeypatch):
    experiment = make()
    sampling = experiment.sampling
    for pairs in (lambda step: sampling.pretraining_pairs(step, 4).local(), sampling.head_pairs):
        whole, parts = pairs(3), list[Pairs]()
        for rank in range(2):
            with monkeypatch.context() as patch:
                patch.setattr("niso.collective.process", lambda rank=rank: (rank, 2))
                parts.append(pairs(3))
        taken = zip(*((part.sequence, *part.frames) for part in parts), strict=True)
        for drawn, pieces in zip((whole.sequence, *whole.frames), taken, strict=True):
            assert torch.equal(torch.cat(pieces), drawn) and len(pieces[0]) == len(pieces[1])


@pytest.mark.parametrize("method", ["niso", "vit"])
def test_what_is_read_and_encoded_batch_by_batch_is_the_same(make, method):
    batches = []
    for memory in (1.0, 0.0):
        experiment = make(method, memory=memory)
        assert (experiment.frames.resident is None) == (memory == 0)
        batches.append([*list(experiment.phases())[-1].sampler(1), *next(experiment.held_out(3))])
    for x, y in zip(*batches, strict=True):
        torch.testing.assert_close(x, y, atol=1e-4, rtol=1e-4)


def test_frames_of_another_size_are_resized(make, tiny_pose):
    whole, half = make().frames, make(size=4, conv=replace(tiny_pose.conv, channels=(4,)), rank=4).frames
    assert half.resident.shape[1:] == (3, 4, 4) and len(half.resident) == len(whole.resident)
    means = [frames.resident.float().mean((1, 2, 3)) for frames in (whole, half)]
    torch.testing.assert_close(*means, atol=12, rtol=0)  # antialiased: what is in between is not left out


@pytest.mark.parametrize("entry", Pose.published, ids=lambda entry: entry.name)
def test_published_values_are_of_known_methods_and_metrics(entry):
    assert entry.source and entry.values.keys() <= DESCRIBED
    assert entry.method in (*Pose.methods(), None)
    assert all(re.fullmatch(r"0\.\d+ ± 0\.\d+", value) for value in entry.values.values())
    assert {f"ate_skip{skip}" for skip in SKIPS} <= entry.values.keys()


def test_the_papers_networks_have_the_papers_sizes():
    assert PAPER.conv.grid == (36, 36) and PAPER.conv.latent_channels == PAPER.rank == 128
    assert (PAPER.equivariance, PAPER.multiplicity, PAPER.skip, PAPER.head_skip) == (0.5, 0.025, 10, 9)
    assert (PAPER.training.steps, PAPER.training.batch_size, PAPER.head.steps) == (200_000, 8, 20_000)
    assert PAPER.mlp == MLPConfig(layers=5, channels=512) and PAPER.head.batch_size == 4 * PAPER.head_group
    assert RELEASED.training.steps == 50_000 and RELEASED.skip == 11  # 12 frames apart


def test_presets_keep_sequences_for_validation():
    assert PoseConfig().validation == 0 and all(preset.validation == 0.05 for preset in PRESETS.values())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"size": 0}, "size must be positive, got 0"),
        ({"clips": 0}, "clips must be positive"),
        ({"clip_frames": 2}, "clip_frames must be at least 3"),
        ({"test_frames": 2}, "test_frames must be at least 3"),
        ({"group": 0}, "group must be at least 1"),
        ({"head_group": 3}, r"head.batch_size \(16\) must be a multiple of head_group \(3\)"),
        ({"quality": 1.5}, "quality must be at most 1"),
        ({"rendered": 1.5}, "rendered must be at most 1"),
        ({"validation": 0.6}, "validation must be at most 0.5"),
        ({"motions": ()}, "motions must name at least one motion"),
        ({"held_out": 1.0}, "held_out must be below 1"),
        ({"skip": -1}, "skip must not be negative"),
        ({"memory": -1.0}, "memory must not be negative"),
        ({"rank": 0}, "rank must be at least 1"),
    ],
)
def test_bad_configurations_are_named(bad, message):
    head = {"head": Optimisation(steps=2)}
    with pytest.raises(ValueError, match=message):
        PoseConfig(**head, **bad)
