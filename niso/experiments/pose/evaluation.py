"""Predicted trajectories of held-out sequences, and their errors at every frame skip."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import gcd
from types import MappingProxyType
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso import metrics
from niso.experiments.pose import baselines
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.predictors.predictor import Predictor
from niso.geometry import trajectories as trajectory
from niso.geometry.averaging import averaged
from niso.geometry.trajectories import FRAMES, SKIPS, TrajectoryErrors
from niso.results import Metric

See = Callable[[Int[Tensor, " batch"], Int[Tensor, " batch"]], Float[Tensor, "batch 3 size size"]]
"""Frames as networks see them, by the numbers of their sequences and their numbers in these."""

BATCH = 64
"""Number of frames to encode, and of pairs to predict, at once."""

AVERAGED = ("ate_normalised", "rotation_error_deg", "translation_angle_deg")
"""Metrics that are also computed for averages over several skips."""

VALIDATED = (*AVERAGED, *(f"{key}_averaged" for key in AVERAGED))
"""Metrics that are also computed on validation sequences."""

_NEIGHBOURS = (
    Metric(
        "ate_normalised",
        "√(3n) times the paper's error, smaller on short paths (of few frames): 0 for an exact prediction, 1 for a "
        "camera predicted to stand still",
        "lower",
    ),
    Metric("constant_motion_ate_normalised", "the same for a straight line at constant speed on the same sequences"),
    Metric("fitted_motion_ate_normalised", "the same for the mean motion of the training sequences"),
    Metric(
        "ate",
        "absolute trajectory error as in the paper (it shrinks with the number n of frames and is at most 1/√(3n)), "
        "mean over held-out sequences",
        "lower",
    ),
    Metric("constant_motion_ate", "the same for a straight line at constant speed"),
    Metric(
        "ate_sim3",
        "root mean square distance of positions after the best similarity, in the data's unit of length (where "
        "sequences have units of their own, the largest numbers dominate the mean)",
        "lower",
    ),
    Metric("constant_motion_ate_sim3", "the same for a straight line at constant speed"),
    Metric("rotation_error_deg", "angle between predicted and true relative rotations", "lower", "°"),
    Metric("fitted_motion_rotation_error_deg", "the same for the mean motion of the training sequences", unit="°"),
    Metric("identity_rotation_error_deg", "the same for a camera predicted not to turn", unit="°"),
    Metric("translation_angle_deg", "angle between predicted and true relative translations", "lower", "°"),
    Metric("fitted_motion_translation_angle_deg", "the same for the mean motion of the training sequences", unit="°"),
    Metric("straight_ahead_translation_angle_deg", "the same for a camera predicted to move straight ahead", unit="°"),
    Metric(
        "equivariance_error", "‖τa − b‖² / ‖b‖² of neighbouring frames of held-out sequences (mean over pairs)", "lower"
    ),
    Metric(
        "composition_error",
        "‖τ(A→C) − τ(B→C) τ(A→B)‖² / ‖τ(A→C)‖² of three consecutive frames A, B, C of held-out sequences (mean)",
        "lower",
    ),
    Metric("identity_composition_error", "the same with the identity in place of τ(B→C) τ(A→B)"),
    Metric("sequences", "held-out sequences evaluated"),
)
_METRICS = _NEIGHBOURS + tuple(
    replace(
        metric,
        key=f"{metric.key}_averaged",
        text=f"{metric.text}, of trajectories that agree best with the relative poses of neighbours, of every second "
        "frame, and so on, as far apart as the head was trained on",
    )
    for metric in _NEIGHBOURS
    if metric.key in AVERAGED
)


def _at_all_skips(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """Every metric at every skip."""
    return tuple(
        replace(
            metric,
            key=f"{metric.key}_skip{skip}",
            text=f"{metric.text}; {skip or 'no'} frame{'s' * (skip != 1)} left out between neighbours",
        )
        for skip in SKIPS
        for metric in metrics
    )


METRICS = _at_all_skips(_METRICS)
VALIDATION_METRICS = _at_all_skips(
    [
        replace(metric, key=f"{metric.key}_val", text=f"{metric.text}, on validation sequences")
        for metric in _METRICS
        if metric.key in VALIDATED
    ]
)


def validation_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """The reported metrics of validation sequences, by the keys of `VALIDATION_METRICS`."""
    return {f"{key}_val_skip{skip}": value for key in VALIDATED for skip, value in by_skip(metrics, key).items()}


class Evaluable(NamedTuple):
    """The held-out sequences that can be evaluated.

    Attributes:
        members: numbers of these sequences by skip.
        reasons: why the others cannot be evaluated, by "name, skip s", or by name for those that cannot at any skip.
    """

    members: dict[int, list[int]]
    reasons: dict[str, str]

    @property
    def sequences(self) -> list[int]:
        """Numbers of the sequences that can be evaluated at any skip, in ascending order."""
        return sorted({number for members in self.members.values() for number in members})


def evaluable(frames: Frames, held_out: Sequence[int]) -> Evaluable:
    """Find the sequences with poses that have at least three frames at a skip and whose camera moves there."""
    members: dict[int, list[int]] = {skip: [] for skip in SKIPS}
    reasons = dict[str, str]()
    for number in held_out:
        poses = frames.poses[number]
        if poses is None:
            reasons[frames.names[number]] = "it has no camera poses"
            continue
        for skip in SKIPS:
            path = trajectory.subsample(poses, skip)[:, :3, 3]
            name = f"{frames.names[number]}, skip {skip}"
            if len(path) < 3:
                reasons[name] = f"only {len(path)} of its frames are left, and 3 are needed"
                continue
            try:
                trajectory.ate_normalised(trajectory.straight_line(len(path)), path)
            except ValueError as error:
                reasons[name] = str(error)
                continue
            members[skip].append(number)
    return Evaluable(members, reasons)


@torch.no_grad()
def features(predictor: Predictor, frames: Frames, sequence: int, see: See | None = None) -> Tensor:
    """Features of the first 200 frames of a sequence, as they are or as `see` gives them."""
    count, see = min(FRAMES, int(frames.lengths[sequence])), see or frames
    parts = torch.arange(count).split(BATCH)
    return torch.cat([predictor.features(see(torch.full_like(part, sequence), part)) for part in parts])


def between(
    function: Callable[[Tensor, Tensor], Tensor | None], encoded: Tensor, reach: Mapping[int, int]
) -> dict[int, dict[int, Tensor]]:
    """A function of two frames, for neighbours, second neighbours, … at several skips.

    It is called once for each pair of frames, though a pair may be of several skips: frames 0 and 2 are neighbours at
    skip 1, and second neighbours at skip 0.

    Args:
        function: of features of first and of second frames, in batches; None where it has no values.
        encoded: features of all frames.
        reach: how far apart neighbours are at most, by skip.

    Returns:
        Values by skip, and by how far apart neighbours are; nothing where the function has none.
    """
    wanted = [(skip, apart, apart * (skip + 1)) for skip, most in reach.items() for apart in range(1, most + 1)]
    every = dict[int, int]()  # by the distance of two frames: the first one's number is a multiple of this
    for skip, _, distance in wanted:
        every[distance] = gcd(every.get(distance, 0), skip + 1)
    values = dict[int, Tensor]()
    for distance, step in every.items():
        pairs = zip(encoded[:-distance:step].split(BATCH), encoded[distance::step].split(BATCH), strict=True)
        parts = [part for pair in pairs if (part := function(*pair)) is not None]
        if parts:
            values[distance] = torch.cat(parts)
    found: dict[int, dict[int, Tensor]] = {skip: {} for skip in reach}
    for skip, apart, distance in wanted:
        if distance in values:
            found[skip][apart] = values[distance][:: (skip + 1) // every[distance]]
    return found


class Evaluation(NamedTuple):
    """Predictions for held-out sequences, and their errors.

    Attributes:
        metrics: means at every skip at which a sequence can be evaluated, see `METRICS`.
        motions: predicted relative poses of neighbouring frames, by skip and number of the sequence; on the CPU.
        errors: errors of the trajectories that these compose to, by skip and number of the sequence.
        trivial: the constant motion of the training sequences, see `niso.experiments.pose.baselines.fitted`.
    """

    metrics: dict[str, float]
    motions: dict[int, dict[int, Float[Tensor, "_pairs 4 4"]]]
    errors: dict[int, dict[int, TrajectoryErrors]]
    trivial: baselines.Motions


@torch.no_grad()
def evaluate(
    predictor: Predictor,
    frames: Frames,
    held_out: Evaluable,
    trivial: baselines.Motions = MappingProxyType({}),
    see: See | None = None,
    head_skip: int = 0,
) -> Evaluation:
    """Predict the motions between neighbouring frames, and compare the trajectories that they compose to.

    Args:
        held_out: the sequences to predict.
        trivial: the constant motion of the training sequences, to compare with.
        see: what the predictor gets in place of the frames, by the numbers of sequences and of frames in these.
        head_skip: the most frames left out between the two of a pair that counts in averages.
    """
    predictor.eval()
    results = Evaluation({}, {skip: {} for skip in SKIPS}, {skip: {} for skip in SKIPS}, trivial)
    of_averages: dict[int, list[TrajectoryErrors]] = {skip: [] for skip in SKIPS}
    of_maps: dict[int, list[dict[str, Tensor]]] = {skip: [] for skip in SKIPS}
    for number in held_out.sequences:
        poses = frames.posed(number)
        true = {skip: trajectory.subsample(poses, skip) for skip in SKIPS if number in held_out.members[skip]}
        reach = {skip: min(max((head_skip + 1) // (skip + 1), 1), len(truth) - 1) for skip, truth in true.items()}
        with predictor.precision():
            encoded = features(predictor, frames, number, see)
            motions = between(lambda first, second: predictor(first, second).cpu(), encoded, reach)
        maps = between(predictor.maps, encoded, dict.fromkeys(true, 2))
        for skip, truth in true.items():
            several = motions[skip]
            results.motions[skip][number] = several[1]
            errors = results.errors[skip][number] = trajectory.errors(several[1], truth)
            if len(several) > 1:
                errors = trajectory.errors(trajectory.relative_poses(averaged(several)), truth)
            of_averages[skip].append(errors)
            of_maps[skip].append(_map_errors(encoded[:: skip + 1], maps[skip]))
    for skip, by_sequence in results.errors.items():
        if not by_sequence:
            continue
        means, averages = _mean_errors(by_sequence.values()), _mean_errors(of_averages[skip])
        means |= {f"{key}_averaged": averages[key] for key in AVERAGED}
        means |= _trivial_errors(frames, by_sequence, skip, trivial)
        for key in of_maps[skip][0]:
            means[key] = torch.cat([part[key] for part in of_maps[skip]]).double().mean().item()
        means["sequences"] = float(len(by_sequence))
        results.metrics.update({f"{key}_skip{skip}": value for key, value in means.items()})
    return results


def _mean_errors(errors: Iterable[TrajectoryErrors]) -> dict[str, float]:
    values = torch.tensor(list(errors), dtype=torch.float64).nanmean(0)
    return dict(zip(TrajectoryErrors._fields, values.tolist(), strict=True))


def _map_errors(kept: Tensor, maps: Mapping[int, Tensor]) -> dict[str, Float[Tensor, " _pairs"]]:
    """Errors of the maps between neighbouring frames of a sequence; nothing where the predictor has no maps.

    Args:
        kept: features of the frames.
        maps: between neighbours, and between second neighbours.
    """
    if not maps:
        return {}
    tau, ac = maps[1], maps[2]
    identity = torch.eye(tau.shape[-1], dtype=tau.dtype, device=tau.device).expand_as(ac)
    return {
        "equivariance_error": metrics.equivariance_error(kept[:-1], kept[1:], tau=tau).cpu(),
        "composition_error": metrics.composition_error(tau[:-1], tau[1:], ac).cpu(),
        "identity_composition_error": metrics.composition_error(identity, identity, ac).cpu(),
    }


def _trivial_errors(frames: Frames, members: Iterable[int], skip: int, trivial: baselines.Motions) -> dict[str, float]:
    """Errors of trivial predictions, means over sequences."""
    paths = (trajectory.subsample(frames.posed(number), skip) for number in members)
    rows = [baselines.errors(poses, trivial.get(skip)) for poses in paths]
    return {key: torch.tensor([row[key] for row in rows], dtype=torch.float64).nanmean().item() for key in rows[0]}


def by_skip(metrics: Mapping[str, float], key: str) -> dict[int, float]:
    """One metric, by the skips that have it."""
    return {skip: metrics[f"{key}_skip{skip}"] for skip in SKIPS if f"{key}_skip{skip}" in metrics}
