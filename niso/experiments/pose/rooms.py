"""Whether maps know the motion of the camera alone: maps between frames of one room, tried on another room."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from niso.data.video.clips import Motion
from niso.experiments.pose.evaluation import BATCH
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.pairs import draw_shared
from niso.experiments.pose.presets import PoseConfig
from niso.experiments.pose.rendered import SHARED_VIEWS, open_held_out_shared
from niso.methods.evaluation.pairs import RELATIVE_MAP_ERROR, RELATIVE_MAP_ERROR_CENTRED, mean_errors
from niso.methods.method import Method
from niso.results import Metric

_SAME = (
    "‖τ′a − b‖² / ‖b‖² of two frames of a rendered room with the τ′ of another room that is seen under the same motion "
    "of the camera (mean): what a map knows of the motion alone"
)
_IDENTITY = "with the identity in place of τ′"


def _metrics(suffix: str, text: str) -> tuple[Metric, ...]:
    return (
        replace(RELATIVE_MAP_ERROR, key=f"relative_map_error{suffix}", text=text),
        replace(RELATIVE_MAP_ERROR_CENTRED, key=f"relative_map_error{suffix}_centred"),
        Metric(f"identity_relative_map_error{suffix}", f"relative_map_error{suffix} {_IDENTITY}"),
        Metric(f"identity_relative_map_error{suffix}_centred", f"relative_map_error{suffix}_centred {_IDENTITY}"),
    )


METRICS = _metrics("", _SAME) + _metrics("_turn", f"{_SAME}; of cameras that turn and do not move")
"""Metrics of maps between rooms, where a run has rendered clips."""


Rooms = dict[str, Frames]
"""Held-out clips of which every two show different rooms under one motion, by the suffix of their metrics."""


def open_rooms(config: PoseConfig, device: torch.device) -> Rooms:
    """The clips that `between_rooms` takes, rendered when they are first needed.

    Raises:
        InputError: see `open_held_out_shared`.
    """
    motions: dict[str, tuple[Motion, ...]] = {"": config.motions, "_turn": ("turn",)}
    return {key: open_held_out_shared(config, value, device) for key, value in motions.items()}


@torch.no_grad()
def between_rooms(method: Method, rooms: Rooms, count: int, skip: int, seed: int) -> dict[str, float]:
    """Metrics of maps between rooms, see `METRICS`.

    Args:
        count: number of pairs of frames.
        skip: the most frames left out between the two of a pair.
        seed: of these pairs.
    """
    method.model.eval()
    found = dict[str, float]()
    for suffix, frames in rooms.items():
        a, b, moved = _moved(method, frames, count, skip, seed)
        for identity, predicted in (("", moved), ("identity_", a)):
            found |= mean_errors(f"{identity}relative_map_error{suffix}", predicted, b)
    return found


def _moved(method: Method, frames: Frames, count: int, skip: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients of the first and the second frames of pairs, and of the first ones moved by maps of other rooms."""
    generator = torch.Generator().manual_seed(seed)
    pairs = draw_shared(frames.lengths, SHARED_VIEWS, SHARED_VIEWS * count, skip, generator, SHARED_VIEWS)
    views = torch.stack((pairs.sequence.repeat(2), torch.cat(pairs.frames)))
    distinct, places = views.unique(dim=1, return_inverse=True)  # clips are short: most frames are in several pairs
    encoded = torch.cat([method.encode(frames(*part)) for part in distinct.split(BATCH, dim=1)])
    (a, other_a), (b, other_b) = (rooms.T for rooms in places.view(2, count, SHARED_VIEWS))
    others = zip(other_a.split(BATCH), other_b.split(BATCH), strict=True)
    maps = torch.cat([method.solve(encoded[first], encoded[second]) for first, second in others])
    return encoded[a], encoded[b], maps @ encoded[a]
