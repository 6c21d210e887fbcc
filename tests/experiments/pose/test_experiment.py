"""The pose experiment on small prepared folders: what methods are trained on, and their figures."""

import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from niso.config import Hardware, Optimisation
from niso.data.video.prepared import PreparedFrames
from niso.errors import InputError
from niso.experiments.pose import evaluation as pose_evaluation
from niso.experiments.pose.experiment import Pose
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.losses import Pairs
from niso.experiments.pose.predictors import METHODS, ConstantMotion, encode, make_predictor, maps_between
from niso.experiments.pose.presets import PAPER, PRESETS, RELEASED, PoseConfig
from niso.geometry import se3
from niso.geometry.trajectories import SKIPS
from niso.methods import NeuralFourierTransform, orthogonal_map
from niso.networks import ConvConfig, MLPConfig
from niso.networks.two_view import TwoViewConfig
from niso.training import checkpoint
from niso.training.loop import train
from niso.training.processes import make_fabric
from niso.training.run import Run
from tests.poses import random_poses

CPU = torch.device("cpu")
SIZE, FRAMES = 8, 24  # of the prepared frames
TINY = replace(
    PRESETS["quick"],
    size=SIZE,
    conv=ConvConfig((SIZE, SIZE), 3, (4, 6), blocks=1, latent_channels=6, stem_channels=4),
    transformer=TwoViewConfig(patch=4, channels=8, heads=2, encoder_blocks=1, decoder_blocks=1),
    rank=8,
    nft_epochs=1,
    nft_maps=8,
    training=Optimisation(steps=2, batch_size=4, learning_rate=1e-3),
    head=Optimisation(steps=2, batch_size=8, learning_rate=1e-2),
    mlp=MLPConfig(layers=1, channels=8),
    evaluation_pairs=5,
)
FLAGS = (
    f"--size {SIZE} --conv.channels 4 6 --conv.blocks 1 --conv.patch 1 --rank 8 --steps 3 --batch-size 4 "
    "--head.steps 3 --head.batch-size 8 --transformer.patch 4 --transformer.channels 8 --transformer.heads 2 "
    "--nft-epochs 1 --nft-maps 8 --evaluation-pairs 3 --mlp.layers 1 --mlp.channels 8"
).split()
TIMES = {"steps", "seconds", "seconds_pretrain", "seconds_head"}


@pytest.fixture
def folder(prepared_frames: Path) -> Path:
    return prepared_frames


def make(folder: Path, method: str = "niso", seed: int = 0, **changes: object) -> Pose:
    torch.manual_seed(0)
    return Pose(replace(TINY, **changes), method, seed, folder, CPU)


def state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def trained(experiment: Pose, folder: Path) -> list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]]:
    """Trains all phases; the objective's weights before and after each."""
    run, fabric = Run.create(folder, {}), make_fabric(Hardware(accelerator="cpu"))
    states = []
    for phase in experiment.phases():
        before = state(phase.objective)
        train(phase.objective, phase.sampler, phase.optimisation, run, fabric, phase.name)
        states.append((before, state(phase.objective)))
    return states


@pytest.mark.parametrize("method", [method for method in METHODS if METHODS[method].features is None])
def test_figures_are_those_described(folder, method):
    experiment = make(folder, method)
    list(experiment.phases())
    figures = experiment.evaluate()
    described = Pose.metric_descriptions.keys() - TIMES
    of_maps = {name for name in described if name.startswith(("equivariance", "reconstruction"))}
    assert figures.keys() == (described if METHODS[method].kind else described - of_maps)
    assert all(math.isfinite(value) and value >= 0 for value in figures.values())
    assert all(figures[f"sequences_skip{skip}"] == 2 for skip in SKIPS)
    torch.manual_seed(5)
    assert experiment.evaluate() == figures
    names = {picture.name for picture in experiment.pictures()}
    assert {"trajectories_skip1", "trajectories_skip5", "failures", "failures_pairs"} <= names
    assert ("maps" in names, "mask" in names) == (METHODS[method].kind is not None, method == "niso")
    curve = experiment.curves()["ate_by_skip"]
    assert curve["x"] == list(SKIPS) and curve["y"][1] == figures["ate_normalised_skip1"]


def test_constant_motion_is_the_line_that_stands_beside_all_methods(folder, tmp_path):
    experiment = make(folder, "constant-motion")
    trained(experiment, tmp_path / "run")
    figures = experiment.evaluate()
    for skip in SKIPS:
        for key in ("ate", "ate_normalised", "ate_sim3"):
            other = f"constant_motion_{key}_skip{skip}"
            assert figures[f"{key}_skip{skip}"] == pytest.approx(figures[other], rel=1e-4)


def test_the_sign_of_translations_is_settled_by_training_pairs():
    predictor, frames = ConstantMotion(), torch.zeros(6, 1)
    truth = random_poses(6)
    truth[:, :3, 3] = torch.tensor([0.0, 0.1, -1.0])
    for _ in range(2):
        predictor.orient(frames, frames, truth)
        assert predictor(frames, frames)[:, 2, 3].max() < 0


def test_rendered_and_mirrored_sequences_have_their_share(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    few = {"clips": 3, "clip_frames": 12, "mirrored": True}
    experiment = make(folder, rendered=0.25, **few)
    frames, names = experiment.frames, experiment.frames.names
    for members, pairs in ((experiment.train, experiment.pretraining_pairs), (experiment.posed, experiment.head_pairs)):
        assert sum(frames.splits[number] == "rendered" for number in members) == 6
        drawn = torch.cat([pairs(step).sequence for step in range(600)])
        rendered = torch.tensor([frames.splits[number] == "rendered" for number in drawn])
        assert abs(rendered.float().mean() - 0.25) < 0.05
        assert abs(frames.mirrored[drawn].float().mean() - 0.5) < 0.05
        assert set(drawn.tolist()) == set(members.tolist())
    assert not any("mirrored" in name or "clip" in name for name in experiment.facts()["train_sequences"])
    for number in experiment.posed[~frames.mirrored[experiment.posed]].tolist():
        twin = names.index(f"{names[number]} mirrored")  # its camera turns and moves the other way
        one, other = experiment.motions(Pairs(torch.tensor([number, twin]), *torch.tensor([[2, 2], [7, 7]])))
        flip = torch.diag(torch.tensor([-1.0, 1, 1, 1]))
        torch.testing.assert_close(other, flip @ one @ flip)
    trained(experiment, tmp_path / "run")
    assert all(math.isfinite(value) for value in experiment.evaluate().values())
    alone = make(folder, rendered=1.0, **few)
    drawn = torch.cat([alone.head_pairs(step).sequence for step in range(20)])
    assert all(frames.splits[number] == "rendered" for number in drawn)


def test_a_share_of_clips_needs_something_beside_them():
    with pytest.raises(InputError, match="--rendered is a share of clips beside --data-dir"):
        Pose(replace(TINY, rendered=0.5), "niso", 0, None, CPU)


def test_footage_without_poses_is_pre_trained_on_beside_rendered_clips(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    poses = PreparedFrames.poses
    monkeypatch.setattr(PreparedFrames, "poses", lambda frames, number: poses(frames, number) * torch.nan)
    with pytest.raises(InputError, match="has no sequence with camera poses"):
        make(folder)
    few = {"clips": 2, "clip_frames": 6, "test_clips": 2, "test_frames": 30}
    experiment = make(folder, rendered=0.5, **few)
    splits = experiment.frames.splits
    assert {splits[number] for number in experiment.train} == {"train", "rendered"}
    assert {splits[number] for number in experiment.posed} == {"rendered"}
    tested = {experiment.frames.names[number] for number in experiment.evaluated.members[0]}
    assert tested == {"orbit/test000", "walk/test001"}
    trained(experiment, tmp_path / "run")
    assert experiment.evaluate()["sequences_skip0"] == 2


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


def test_true_motions_have_no_error(folder):
    experiment = make(folder)
    frames = experiment.frames
    frames.__class__ = Indexed
    figures = pose_evaluation.evaluate(Oracle(frames), frames, experiment.evaluated.members).figures
    for skip in SKIPS:
        assert figures[f"ate_normalised_skip{skip}"] < 1e-5 < figures[f"constant_motion_ate_normalised_skip{skip}"]
        assert figures[f"rotation_error_deg_skip{skip}"] < 0.05
        assert figures[f"translation_angle_deg_skip{skip}"] < 0.01


@pytest.mark.parametrize("method", ["niso", "niso-no-operator", "nft"])
def test_the_backbone_is_frozen_while_the_head_is_trained(folder, tmp_path, method):
    experiment = make(folder, method)
    (start, before), (head, after) = trained(experiment, tmp_path / "run")
    assert isinstance(experiment.model, NeuralFourierTransform) == (method == "nft")
    assert any(not torch.equal(start[name], before[name]) for name in start)
    for name, value in before.items():
        if name != "model.basis":  # of the NFT's diagonalisation, between the phases
            assert torch.equal(after[f"predictor.{name}"], value), name
    moved = {name for name in head if not torch.equal(head[name], after[name])}
    assert moved == {name for name in head if name.startswith("predictor.head.")}


def test_without_the_operator_maps_are_orthogonal_and_nothing_more(folder):
    experiment, whole = make(folder, "niso-no-operator"), make(folder)
    assert (experiment.model.mask, whole.model.mask) == (None, "soft")
    objective, other = (next(one.phases()).objective for one in (experiment, whole))
    assert objective.multiplicity == 0 < other.multiplicity == TINY.multiplicity
    a, b = experiment._examples(3)
    tau = experiment.model.map_between(*next(experiment.held_out(3)))
    torch.testing.assert_close(tau @ tau.mT, torch.eye(8).expand(3, 8, 8), atol=1e-5, rtol=0)
    assert a.shape == b.shape == (3, 8, 6)


@pytest.mark.parametrize("method", ["niso", "niso-no-operator", "nft"])
def test_maps_of_single_latents_are_those_of_pairs(folder, method):
    experiment = make(folder, method)
    model = experiment.model
    x, tx = next(experiment.held_out(4))
    with torch.no_grad():
        found = maps_between(model, encode(model, x), encode(model, tx))
        torch.testing.assert_close(found, model.map_between(x, tx), atol=1e-3, rtol=1e-3)


def test_heads_see_maps_as_they_are_or_standardised(folder):
    a, b = torch.randn(2, 5, 64, 6, generator=torch.Generator().manual_seed(0))
    for complete in (False, True):
        for standardise in (False, True):
            experiment = make(folder, "niso-no-basis", complete=complete, standardise=standardise)
            predictor = make_predictor(experiment.config, "niso-no-basis", (experiment.model, (a, b)), None)
            seen = list[torch.Tensor]()
            predictor.head.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(inputs[0]))
            predictor.numbers(a, b)
            expected = orthogonal_map(a, b, complete)
            if standardise:
                expected = expected - expected.mean(0)
                expected = expected / expected.square().mean().sqrt()
            torch.testing.assert_close(seen[0], expected)


def test_heads_see_posed_sequences_of_the_training_split(folder):
    experiment = make(folder, head=Optimisation(steps=2, batch_size=400))
    names = [experiment.frames.names[number] for number in experiment.head_pairs(0).sequence.unique().tolist()]
    assert names == ["train0", "train1", "train2"]
    own = experiment.pretraining_pairs(0)
    assert experiment.frames.names.index("blind") in experiment.train.tolist()
    assert set(own.sequence.tolist()) <= set(experiment.train.tolist())
    pairs = experiment.head_pairs(1)
    motions = experiment.motions(pairs)
    poses = [experiment.frames.poses[number] for number in pairs.sequence.tolist()]
    second = torch.stack([pose[frame] for pose, frame in zip(poses, pairs.second.tolist(), strict=True)])
    first = torch.stack([pose[frame] for pose, frame in zip(poses, pairs.first.tolist(), strict=True)])
    torch.testing.assert_close(first.float() @ motions, second.float(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("method", ["niso", "vit"])
def test_what_is_read_and_encoded_batch_by_batch_is_the_same(folder, method):
    batches = []
    for memory in (1.0, 0.0):
        experiment = make(folder, method, memory=memory)
        assert (experiment.frames.resident is None) == (memory == 0)
        batches.append([*list(experiment.phases())[-1].sampler(1), *next(experiment.held_out(3))])
    for x, y in zip(*batches, strict=True):
        torch.testing.assert_close(x, y, atol=1e-4, rtol=1e-4)


def test_frames_of_another_size_are_resized(folder):
    whole, half = make(folder).frames, make(folder, size=4, conv=replace(TINY.conv, channels=(4,)), rank=4).frames
    assert half.resident.shape[1:] == (3, 4, 4) and len(half.resident) == len(whole.resident)
    means = [frames.resident.float().mean((1, 2, 3)) for frames in (whole, half)]
    torch.testing.assert_close(*means, atol=12, rtol=0)  # antialiased: what is in between is not left out


@pytest.mark.parametrize("method", ["niso", "vit"])
def test_an_interrupted_head_is_trained_as_if_nothing_had_happened(
    niso: Callable, folder: Path, tmp_path: Path, method: str
):
    whole, again = tmp_path / "whole", tmp_path / "again"
    status, _, err = niso("run", "pose", *FLAGS, "--data-dir", folder, "--method", method, "--out", whole)
    assert status == 0, err
    assert (whole / "report.html").exists() and list((whole / "figures").iterdir())
    assert json.loads((whole / "run.json").read_text())["test_sequences"] == ["test0", "test1"]
    shutil.copytree(whole, again)
    for name in ("metrics.json", "checkpoints/head.safetensors"):
        (again / name).unlink()
    assert niso("resume", again).status == 0
    first, second = (checkpoint.load(run / "checkpoints" / "head.safetensors")[0] for run in (whole, again))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    figures = [json.loads((run / "metrics.json").read_text()) for run in (whole, again)]
    assert {key for key in figures[0] if figures[0][key] != figures[1][key]} <= {"seconds_head", "seconds"}


@pytest.mark.parametrize("entry", Pose.published, ids=lambda entry: entry.name)
def test_published_figures_are_of_known_methods_and_metrics(entry):
    assert entry.source and entry.figures.keys() <= Pose.metric_descriptions.keys()
    assert entry.method in (*METHODS, None)
    assert all(re.fullmatch(r"0\.\d+ ± 0\.\d+", figure) for figure in entry.figures.values())
    assert {f"ate_skip{skip}" for skip in SKIPS} <= entry.figures.keys()


def test_the_papers_networks_have_the_papers_sizes():
    assert PAPER.conv.grid == (36, 36) and PAPER.conv.latent_channels == PAPER.rank == 128
    assert (PAPER.equivariance, PAPER.multiplicity, PAPER.skip, PAPER.head_skip) == (0.5, 0.025, 10, 9)
    assert (PAPER.training.steps, PAPER.training.batch_size, PAPER.head.steps) == (200_000, 8, 20_000)
    assert PAPER.mlp == MLPConfig(layers=5, channels=512) and PAPER.head.batch_size == 4 * PAPER.group
    assert RELEASED.training.steps == 50_000 and RELEASED.skip == 11  # 12 frames apart


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"size": 0}, "size must be positive, got 0"),
        ({"clips": 0}, "clips must be positive"),
        ({"clip_frames": 2}, "clip_frames must be at least 3"),
        ({"test_frames": 2}, "test_frames must be at least 3"),
        ({"group": 0}, "group must be positive"),
        ({"group": 3}, r"head.batch_size \(16\) must be a multiple of group \(3\)"),
        ({"quality": 1.5}, "quality must be at most 1"),
        ({"rendered": 1.5}, "rendered must be at most 1"),
        ({"motions": ()}, "motions must name one at least"),
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
