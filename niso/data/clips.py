"""Posed video that the program renders itself: rooms textured with photographs, seen by hand-held cameras.

No real footage is needed, and every pose is exact. Clips differ in room, objects, light and camera path; those held out
show other photographs too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from niso.data import scenes
from niso.data.photographs import crops, photographs
from niso.data.sequences import Clip
from niso.geometry.raycast import Scene, Textures, mipmaps, render
from niso.random import step_seed

FIELD_OF_VIEW = 65.0
"""Degrees across the image: a telephone's camera."""

_TEXTURES, _TEXTURE_SIZE = 64, 128


def clips(
    count: int,
    frames: int = 60,
    size: int = 144,
    seed: int = 0,
    held_out: bool = False,
    photograph_dir: Path | None = None,
) -> list[Clip]:
    """Rendered clips, every second one a walk and the others orbits.

    Poses are in metres. A clip depends on `seed`, its number, `frames` and the photographs, not on `count`.

    Args:
        size: height and width in pixels.
        held_out: whether to show the photographs that `photographs` holds out, in other rooms.
        photograph_dir: photographs to take as textures, see `photographs`; by default those shipped with libraries.

    Raises:
        InputError: photographs cannot be read, or are too small.
        ValueError: there would be no frame, or no pixel.
    """
    if min(count, frames, size) < 1:
        raise ValueError(f"count, frames and size must be positive, got {count}, {frames} and {size}")
    textures = photograph_textures(seed, held_out, photograph_dir)
    part = "held out" if held_out else "train"
    return [_clip(number, frames, size, step_seed(seed, number, f"clip, {part}"), textures) for number in range(count)]


def photograph_textures(seed: int = 0, held_out: bool = False, photograph_dir: Path | None = None) -> Textures:
    """Random crops of photographs, each with a tint of its own."""
    images = photographs(photograph_dir)[held_out]
    stream = step_seed(seed, int(held_out), "textures")
    pool = (crops(images, _TEXTURES, _TEXTURE_SIZE, stream, smallest=1) + 1) / 2
    generator = torch.Generator().manual_seed(stream)
    tints = 0.75 + 0.4 * torch.rand(_TEXTURES, 1, 3, generator=generator)
    return mipmaps((pool * tints).clamp(0, 1).unflatten(1, (_TEXTURE_SIZE, _TEXTURE_SIZE)))


def scene_and_path(
    number: int, frames: int, seed: int, textures: Textures
) -> tuple[Scene, Float[Tensor, "frames 4 4"]]:
    """The room of a clip and its camera's poses, in float64."""
    generator = np.random.default_rng(seed)
    poses = (scenes.walk if number % 2 else scenes.orbit)(frames, generator)
    return scenes.room(poses, len(textures.starts), generator), poses


def intrinsics_of(size: int) -> Float[Tensor, " 4"]:
    """fx, fy, cx, cy of all rendered clips, in pixels."""
    focal = size / 2 / np.tan(np.deg2rad(FIELD_OF_VIEW) / 2)
    return torch.tensor([focal, focal, size / 2, size / 2], dtype=torch.float64)


def _clip(number: int, frames: int, size: int, seed: int, textures: Textures) -> Clip:
    scene, poses = scene_and_path(number, frames, seed, textures)
    intrinsics = intrinsics_of(size)
    images = torch.empty(frames, 3, size, size, dtype=torch.uint8)
    for image, pose in zip(images, poses.float(), strict=True):
        view = render(scene, textures, pose, intrinsics.float(), size, size)
        image.copy_((view.colours * 255).round())
    return Clip(images, poses, intrinsics.expand(frames, 4))
