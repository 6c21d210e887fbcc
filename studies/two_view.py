"""What frames show of the camera's motion without learning: matched points, and the five-point solver on each pair.

Points of two frames are matched by SIFT, or by dense optical flow (DIS) there and back. The essential matrix (Nistér
2004, with MAGSAC) gives the rotation and the direction of travel. It is told the focal length, which networks are not.
The test sequences and the errors are those of the pose experiment. A pair without a solution counts as one of a camera
that moves straight ahead.

Run: python -m studies.two_view, and with --data-dir CO3D --split-file FILE. It needs opencv-python-headless.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import tyro

from benchmarks.common import Named, table, write

import cv2  # isort: skip  # after benchmarks.common, which sets how threads wait
import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from niso.data.video.clips import intrinsics_of
from niso.data.video.co3d import FRAMES as ANNOTATIONS
from niso.experiments.pose.presets import SMALL
from niso.experiments.pose.sources import open_sequences
from niso.experiments.pose.split import split
from niso.geometry import trajectories
from niso.geometry.trajectories import FRAMES

Image = UInt8[np.ndarray, "size size"]
Points = Float[np.ndarray, "points 2"]
Matcher = Callable[[Image, Image], tuple[Points, Points]]
SKIPS = (0, 1, 3, 9)
LEAST = 8
"""Fewest matched points of a pair that is solved."""


@dataclass(frozen=True)
class TwoView(Named):
    """Options."""

    data_dir: Path | None = None
    """Videos with poses in CO3Dv2's layout; by default the rendered clips."""
    split_file: Path | None = None
    """The split of its sequences."""
    sizes: tuple[int, ...] = (64,)
    """Heights and widths of frames in pixels."""


def sift(first: Image, second: Image) -> tuple[Points, Points]:
    """Points of both frames whose descriptors match, by Lowe's ratio."""
    detector = cv2.SIFT_create(contrastThreshold=0.01)
    (points, descriptors), (others, other_descriptors) = (
        detector.detectAndCompute(image, None) for image in (first, second)
    )
    if min(len(points), len(others)) < LEAST:
        return np.empty((0, 2)), np.empty((0, 2))
    found = cv2.BFMatcher().knnMatch(descriptors, other_descriptors, k=2)
    kept = [near for near, next_near in found if near.distance < 0.8 * next_near.distance]
    here, there = [points[match.queryIdx].pt for match in kept], [others[match.trainIdx].pt for match in kept]
    return np.array(here).reshape(-1, 2) + 0.5, np.array(there).reshape(-1, 2) + 0.5


def flow(first: Image, second: Image) -> tuple[Points, Points]:
    """Points of a grid of 64×64 or a little more, and where dense flow takes them, where the flow back agrees."""
    size = len(first)
    solver = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    solver.setFinestScale(0)
    forward, back = solver.calc(first, second, None), solver.calc(second, first, None)
    grid = np.arange(0, size, max(1, size // 64))
    here = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
    there = here + forward[here[:, 1], here[:, 0]]
    inside = ((there >= 0) & (there <= size - 1)).all(1)
    nearest = there.round().clip(0, size - 1).astype(int)
    returned = there + back[nearest[:, 1], nearest[:, 0]]
    kept = inside & (np.abs(returned - here).max(1) < max(0.3, size / 256))
    return here[kept] + 0.5, there[kept] + 0.5


def motion(here: Points, there: Points, focal: float, size: int) -> Float[Tensor, "4 4"] | None:
    """Pose of the second camera in the coordinates of the first, its translation of length 1; None where unsolved."""
    if len(here) < LEAST:
        return None
    camera = np.array([[focal, 0, size / 2], [0, focal, size / 2], [0, 0, 1]])
    options = {"method": cv2.USAC_MAGSAC, "prob": 0.9999, "threshold": max(0.3, size / 512)}
    essential, inliers = cv2.findEssentialMat(here, there, camera, **options)
    if essential is None or essential.shape != (3, 3):
        return None
    # by default points more than 50 baselines away, which may be all, have no say in which of four motions it is
    count, rotation, translation, *_ = cv2.recoverPose(essential, here, there, camera, distanceThresh=1e9, mask=inliers)
    if not count:
        return None
    pose = np.eye(4)  # OpenCV gives the motion of points, the inverse of that of the camera
    pose[:3, :3], pose[:3, 3] = rotation.T, -(rotation.T @ translation)[:, 0]
    return torch.from_numpy(pose)


def focal_lengths(root: Path) -> dict[str, list[float]]:
    """Focal lengths of all frames by sequence, in halves of the shorter side of an image."""
    found: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(root.glob(f"*/{ANNOTATIONS}")):
        for frame in json.loads(gzip.decompress(path.read_bytes())):
            if frame["viewpoint"]["intrinsics_format"] != "ndc_isotropic":
                raise ValueError(f"{path} has focal lengths in another unit than ndc_isotropic")
            focal = float(np.mean(frame["viewpoint"]["focal_length"]))
            name = f"{path.parent.name}/{frame['sequence_name']}"
            found.setdefault(name, []).append((frame["frame_number"], focal))
    return {name: [focal for _, focal in sorted(frames)] for name, frames in found.items()}


class Errors(NamedTuple):
    """What a matcher leads to at each skip, means over sequences.

    Attributes:
        direction, rotation: errors in degrees.
        unsolved: share of the pairs that have no solution.
    """

    direction: list[float]
    rotation: list[float]
    unsolved: list[float]


def measured(size: int, options: TwoView, matched: Matcher) -> Errors:
    """Solve the neighbouring frames of all sequences to test on."""
    config = replace(SMALL, size=size, split_file=options.split_file)
    frames = open_sequences(config, options.data_dir, torch.device("cpu"))
    known = None if options.data_dir is None else focal_lengths(options.data_dir)
    held_out = split(frames, config, "the data").evaluated
    found: dict[int, list[tuple[float, float, float]]] = {skip: [] for skip in SKIPS}
    ahead = torch.eye(4, dtype=torch.float64)
    ahead[2, 3] = 1
    for number in held_out.sequences:
        count = min(FRAMES, int(frames.lengths[number]))
        images = frames.read(torch.full((count,), number), torch.arange(count)).permute(0, 2, 3, 1).numpy()
        grey = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in images]
        poses = frames.posed(number)
        focal = [float(intrinsics_of(size)[0])] * count
        if known is not None:
            focal = [value * size / 2 for value in known[frames.names[number]][:count]]
        for skip in (skip for skip in SKIPS if number in held_out.members[skip]):
            places = range(0, count - skip - 1, skip + 1)
            motions = [motion(*matched(grey[n], grey[n + skip + 1]), focal[n], size) for n in places]
            predicted = torch.stack([ahead if pose is None else pose for pose in motions])
            error = trajectories.errors(predicted, trajectories.subsample(poses, skip))
            unsolved = sum(pose is None for pose in motions) / len(motions)
            found[skip].append((error.translation_angle_deg, error.rotation_error_deg, unsolved))
    means = [torch.tensor(values, dtype=torch.float64).nanmean(0).tolist() for values in found.values()]
    return Errors(*map(list, zip(*means, strict=True)))


def main(options: TwoView) -> None:
    """Measure, print and write."""
    cv2.setNumThreads(1)
    cv2.setRNGSeed(0)
    runs = [(size, matched) for size in options.sizes for matched in (sift, flow)]
    errors = [measured(size, options, matched) for size, matched in runs]
    data = "rendered clips" if options.data_dir is None else options.data_dir.resolve().name
    for place, text in enumerate(
        ("Angle of the direction of travel (°)", "Rotation error (°)", "Share of unsolved pairs")
    ):
        rows = [
            [f"{size}×{size}", matched.__name__, *found[place]]
            for (size, matched), found in zip(runs, errors, strict=True)
        ]
        table(
            f"{text} of the five-point solver, {data}", ["frames", "matches", *(f"skip {skip}" for skip in SKIPS)], rows
        )
    shown = replace(options, data_dir=None, split_file=None)  # paths of this machine
    write("two_view", shown, {"data": data, "opencv": cv2.__version__})


if __name__ == "__main__":
    main(tyro.cli(TwoView))
