"""Trajectories of a pose run's held-out sequences, and the file that keeps them for a viewer.

`trajectories.safetensors` holds, for each sequence NAME that is kept,

| tensor | shape | |
|---|---|---|
| NAME/true | (frames, 4, 4) | camera-to-world poses of the first 200 frames, see `niso.geometry.se3`; float64 |
| NAME/skipS | (pairs, 4, 4) | predicted relative poses of frames 0, S + 1, 2(S + 1), …, for each skip S evaluated |
| NAME/numbers | (images,) | numbers of the frames of which there is an image |
| NAME/images | (images, 3, height, width) | these images, made smaller, 0 … 255 |
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from niso.data.evenly import evenly
from niso.errors import CheckpointError, InputError
from niso.experiments.pose.frames import Frames
from niso.files.paths import in_shell
from niso.geometry import se3
from niso.geometry import trajectories as trajectory
from niso.geometry.trajectories import FRAMES
from niso.training import checkpoint

FILE = "trajectories"
"""Name of the file in a run folder, without its suffix."""
KEPT = 48
"""Number of sequences in the file, at most."""
IMAGES = 16
"""Number of images of a sequence, at most."""
SIDE = 64
"""Height and width of the images in pixels, at most."""


class Trajectories(NamedTuple):
    """One held-out sequence, as the file keeps it.

    Attributes:
        truth: camera-to-world poses.
        motions: predicted relative poses by skip.
        numbers: numbers of the frames of which there is an image.
        images: these images, 0 … 255.
    """

    truth: Float[Tensor, "frames 4 4"]
    motions: dict[int, Float[Tensor, "_pairs 4 4"]]
    numbers: Int[Tensor, " images"]
    images: UInt8[Tensor, "images 3 height width"]


def tensors(frames: Frames, motions: Mapping[int, Mapping[int, Float[Tensor, "_pairs 4 4"]]]) -> dict[str, Tensor]:
    """The content of the file: at most `KEPT` of the evaluated sequences, the same ones for every method.

    Args:
        motions: predicted relative poses by skip and number of the sequence.
    """
    evaluated = sorted({number for predicted in motions.values() for number in predicted})
    kept = dict[str, Tensor]()
    for number in (evaluated[place] for place in evenly(KEPT, len(evaluated), last=True).tolist()):
        name, truth = frames.names[number], frames.posed(number)[:FRAMES].clone()
        numbers = torch.arange(0, len(truth), -(-len(truth) // IMAGES))
        images = frames.read(torch.full_like(numbers, number), numbers).cpu()
        size = (min(SIDE, images.shape[-2]), min(SIDE, images.shape[-1]))
        small = torch.nn.functional.interpolate(images.float(), size, mode="area").round().byte()
        kept |= {f"{name}/true": truth, f"{name}/numbers": numbers, f"{name}/images": small}
        kept |= {f"{name}/skip{skip}": poses[number].float() for skip, poses in motions.items() if number in poses}
    return kept


def read(run: Path) -> dict[str, Trajectories]:
    """The sequences that a finished run of the pose experiment keeps, by name.

    Raises:
        InputError: the run has no such file, or it is damaged; names the remedy.
    """
    path = run / f"{FILE}.safetensors"
    remedy = f"`niso evaluate {in_shell(run)}` writes it anew"
    if not path.is_file():
        raise InputError(f"{run} has no {path.name}, as a finished run of the pose experiment has: {remedy}")
    try:
        stored, _ = checkpoint.load(path, remedy="")
        sequences = {name: _sequence(name, stored) for name in (key[:-5] for key in stored if key.endswith("/true"))}
    except (CheckpointError, KeyError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}): {remedy}") from error
    if not sequences:
        raise InputError(f"{path} is damaged (it holds no sequence): {remedy}")
    return sequences


def _sequence(name: str, stored: dict[str, Tensor]) -> Trajectories:
    """One sequence of the file.

    Raises:
        KeyError: a part is missing.
        ValueError: parts do not fit each other.
    """
    truth, numbers, images = (stored[f"{name}/{part}"] for part in ("true", "numbers", "images"))
    prefix = f"{name}/skip"
    motions = {int(key.removeprefix(prefix)): value for key, value in stored.items() if key.startswith(prefix)}
    if not bool(truth.isfinite().all() and all(poses.isfinite().all() for poses in motions.values())):
        raise ValueError(f"poses of {name} are not finite")
    if len(numbers) != len(images) or bool((numbers < 0).any() | (numbers >= len(truth)).any()):
        raise ValueError(f"images of {name} are not those of its frames")
    for skip, poses in motions.items():
        if skip < 0 or poses.shape != (len(trajectory.subsample(truth, skip)) - 1, 4, 4):
            raise ValueError(f"{prefix}{skip} does not fit {name}/true")
    return Trajectories(truth, dict(sorted(motions.items())), numbers, images)


def paths(
    motions: Float[Tensor, "pairs 4 4"], poses: Float[Tensor, "frames 4 4"], skip: int
) -> tuple[Float[Tensor, "kept 3"], Float[Tensor, "kept 3"]]:
    """True positions at a skip, and predicted ones under the similarity, or reflection, that brings them nearest."""
    truth = se3.translation(trajectory.subsample(poses, skip))
    predicted = se3.translation(trajectory.compose(motions.double()))
    return truth, trajectory.aligned(predicted, truth, reflections=True)
