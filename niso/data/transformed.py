"""Examples for training: images, and what random transformations make of them."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from niso.collective import local_part
from niso.data.squares import signed
from niso.geometry.action import Transformations, composed, powers


def related(
    images: UInt8[Tensor, "n side side"],
    size: int,
    action: Transformations,
    views: int = 2,
    group: int = 1,
    transformed_first: bool = False,
) -> tuple[Float[Tensor, "local 1 side side"], ...]:
    """Random images and what T, T² … make of them: pairs (ψ, Tψ), or triplets (ψ, Tψ, T²ψ); this process's part.

    Each power of T acts on the image itself, so that there is one interpolation. Images and transformations are few
    numbers, drawn with torch's CPU generator for the global batch and cut to this process's part: they depend neither
    on the device nor on the number of processes.

    Args:
        images: in 0 … 255, on the training device.
        size: of the batch of all processes.
        views: 2 for pairs, 3 for triplets.
        group: so many consecutive images share one T; 1 gives each its own.
        transformed_first: whether ψ is an image under a random transformation of its own, in place of the image.

    Raises:
        ValueError: size is not a multiple of group, or views or group is less than 1.
        TypeError: for transformations of transformed images, or for three views, those that cannot be composed.
    """
    if views < 1 or group < 1 or size % group:
        raise ValueError(f"size {size} must be a multiple of group {group}, and views {views} and group positive")
    x = _pick(images, _draw(len(images), size))
    return views_of(x, size, action, views, group, transformed_first)


def views_of(
    x: Float[Tensor, "local ..."],
    size: int,
    action: Transformations,
    views: int,
    group: int,
    transformed_first: bool,
) -> tuple[Float[Tensor, "local ..."], ...]:
    """Observations, and what random T, T² … make of them.

    Args:
        x: this process's part of a batch.
        size, action, views, group, transformed_first: as in `related`.

    Raises:
        TypeError: as in `related`.
    """
    t = local_part(action.sample(size // group)).repeat_interleave(group, dim=0)
    later = powers(action, t, views - 1)
    if not transformed_first:
        return x, *(action.act(x, power) for power in later)
    first = local_part(action.sample(size))
    return action.act(x, first), *(action.act(x, composed(action, power, first)) for power in later)


def labelled(
    images: UInt8[Tensor, "n side side"], labels: Int[Tensor, " n"], size: int, action: Transformations | None = None
) -> tuple[Float[Tensor, "local 1 side side"], Int[Tensor, " local"]]:
    """Random images with their labels for the training of heads, drawn as `related` does.

    Args:
        action: transforms each image at random; None leaves them as they are.
    """
    index = _draw(len(images), size)
    x = _pick(images, index)
    if action is not None:
        x = action.act(x, local_part(action.sample(size)))
    return x, labels[index.to(labels.device, non_blocking=True)]


def _draw(count: int, size: int) -> Int[Tensor, " local"]:
    return local_part(torch.randint(count, (size,)))


def _pick(images: UInt8[Tensor, "n side side"], index: Int[Tensor, " local"]) -> Float[Tensor, "local 1 side side"]:
    return signed(images[index.to(images.device, non_blocking=True)])[:, None]
