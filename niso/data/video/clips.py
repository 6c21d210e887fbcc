"""Posed video that the program renders itself: rooms textured with photographs, seen by hand-held cameras.

No real footage is needed, and every pose is exact. Clips differ in room, objects, light and camera path; held-out
clips show other photographs too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from niso.data.photographs import crops, photographs
from niso.data.video import scenes
from niso.data.video.sequences import Clip
from niso.geometry import se3
from niso.geometry.raycast import Scene, Textures, mipmaps, render
from niso.random import step_seed

FIELD_OF_VIEW = 65.0
"""Degrees across the image: a telephone's camera."""

FIELDS_OF_VIEW = (40.0, 70.0)
"""Smallest and largest field of view where each clip has its own."""

Motion = Literal["orbit", "walk", "free", "turn"]
"""How a camera moves, see `niso.data.video.scenes`. On an orbit the rotation tells the translation; on a free path
nothing does, and each clip has a field of view of its own; a turn has no translation."""

MOTIONS: dict[Motion, Callable[[int, np.random.Generator], Tensor]] = {
    "orbit": scenes.orbit,
    "walk": scenes.walk,
    "free": scenes.free,
    "turn": scenes.turn,
}

_TEXTURES, _TEXTURE_SIZE = 64, 128


def clips(
    count: int,
    frames: int = 60,
    size: int = 144,
    seed: int = 0,
    held_out: bool = False,
    photograph_dir: Path | None = None,
    motions: Sequence[Motion] = ("orbit", "walk"),
    rooms: int = 1,
    fields_of_view: tuple[float, float] | None = None,
    report: Callable[[int], None] = lambda frames: None,
) -> list[Clip]:
    """Rendered clips, of each motion in turn.

    Poses are in metres. A clip depends on its number and on all arguments but `count` and `report`.

    Args:
        size: height and width in pixels.
        held_out: whether to show the photographs that `photographs` holds out, in other rooms.
        photograph_dir: photographs to take as textures, see `photographs`; by default those shipped with libraries.
        motions: how cameras move.
        rooms: so many consecutive clips show different rooms, with other objects, textures and light, under the same
            motion relative to the first frame and with the same field of view.
        fields_of_view: the smallest and the largest one in degrees across the image; each clip has its own. By default
            `FIELDS_OF_VIEW` on free paths, and `FIELD_OF_VIEW` on others.
        report: called with the number of frames rendered so far, at first 0.

    Raises:
        InputError: photographs cannot be read, or are too small.
        ValueError: count, frames, size, rooms or the number of motions is less than 1; or fields of view are not in
            ascending order between 0 and 180°.
    """
    if fields_of_view is not None:
        check_fields_of_view(*fields_of_view)
    if min(count, frames, size, rooms, len(motions)) < 1:
        numbers = f"{count} clips of {frames} frames of {size} pixels with {len(motions)} motions in {rooms} rooms"
        raise ValueError(f"all numbers must be positive, got {numbers}")
    report(0)
    textures = photograph_textures(seed, held_out, photograph_dir)
    # no room repeats a clip for one room alone: some of these validate what is trained on rooms
    part = "held out" if held_out else "train" if rooms == 1 else "train in rooms"
    made = list[Clip]()
    for number in range(count):
        path, room = divmod(number, rooms)
        stream = step_seed(seed, path, f"clip, {part}")
        motion = motions[path % len(motions)]
        fields = fields_of_view or (FIELDS_OF_VIEW if motion == "free" else (FIELD_OF_VIEW, FIELD_OF_VIEW))
        made.append(_clip(motion, frames, size, stream, textures, room, fields))
        report(len(made) * frames)
    return made


def photograph_textures(seed: int, held_out: bool, photograph_dir: Path | None) -> Textures:
    """Random crops of photographs, each with a random tint."""
    images = photographs(photograph_dir)[held_out]
    stream = step_seed(seed, int(held_out), "textures")
    pool = (crops(images, _TEXTURES, _TEXTURE_SIZE, stream, smallest=1) + 1) / 2
    generator = torch.Generator().manual_seed(stream)
    tints = 0.75 + 0.4 * torch.rand(_TEXTURES, 1, 3, generator=generator)
    return mipmaps((pool * tints).clamp(0, 1).unflatten(1, (_TEXTURE_SIZE, _TEXTURE_SIZE)))


def scene_and_path(
    motion: Motion, frames: int, seed: int, textures: Textures, room: int = 0
) -> tuple[Scene, Float[Tensor, "frames 4 4"]]:
    """The room of a clip and its camera's poses, in float64.

    Args:
        room: its number. In all rooms the camera moves alike, but each lies about the path in another direction.
    """
    generator = np.random.default_rng(seed)
    poses = MOTIONS[motion](frames, generator)
    if room:
        generator = np.random.default_rng((seed, room))
        turned = torch.zeros(6, dtype=poses.dtype)
        turned[5] = generator.uniform(0, 2 * np.pi)
        poses = se3.exp(turned) @ poses
    return scenes.room(poses, len(textures.starts), generator), poses


def intrinsics_of(size: int, field_of_view: float = FIELD_OF_VIEW) -> Float[Tensor, " 4"]:
    """fx, fy, cx, cy in pixels of square images."""
    focal = size / 2 / np.tan(np.deg2rad(field_of_view) / 2)
    return torch.tensor([focal, focal, size / 2, size / 2], dtype=torch.float64)


def check_fields_of_view(smallest: float, largest: float) -> None:
    """Raise a ValueError where cameras cannot have these fields of view, in degrees."""
    if not 0 < smallest <= largest < 180:
        raise ValueError(f"fields of view must be ascending, between 0 and 180 degrees, got {smallest:g} {largest:g}")


def _clip(
    motion: Motion, frames: int, size: int, seed: int, textures: Textures, room: int, fields: tuple[float, float]
) -> Clip:
    scene, poses = scene_and_path(motion, frames, seed, textures, room)
    intrinsics = intrinsics_of(size, np.random.default_rng(seed + 1).uniform(*fields))
    images = torch.empty(frames, 3, size, size, dtype=torch.uint8)
    for image, pose in zip(images, poses.float(), strict=True):
        view = render(scene, textures, pose, intrinsics.float(), size, size)
        image.copy_((view.colours * 255).round())
    return Clip(images, poses)
