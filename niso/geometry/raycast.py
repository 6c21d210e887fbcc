"""A small ray caster: textured boxes and spheres inside a textured room, seen by a pinhole camera."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from niso.geometry import se3


class Textures(NamedTuple):
    """Square images with smaller copies of them (mipmaps), so that distant surfaces are neither blurred nor noisy.

    Attributes:
        texels: (texels, 3) colours of all levels of all textures, 0 to 1, each level in row-major order.
        starts: (textures, levels) index in `texels` of the first colour of each level of each texture.
        sides: (levels,) side of each level in pixels, 2^m, 2^(m−1), …
    """

    texels: Float[Tensor, "texels 3"]
    starts: Int[Tensor, "textures levels"]
    sides: Int[Tensor, " levels"]


class Scene(NamedTuple):
    """Objects in a world with z upwards; the first one is the room, a box seen from inside.

    Attributes:
        centres: of the objects.
        axes: rotations whose columns are the axes of each object.
        halves: half sides of each box, or three times the radius of a sphere.
        spheres: whether each object is a sphere.
        textures: number of the texture of each face of a box (−x, +x, −y, +y, −z, +z); a sphere uses the first.
        tiles: length that a texture covers before its mirror image follows.
        light: unit vector from the scene towards the light.
    """

    centres: Float[Tensor, "objects 3"]
    axes: Float[Tensor, "objects 3 3"]
    halves: Float[Tensor, "objects 3"]
    spheres: Bool[Tensor, " objects"]
    textures: Int[Tensor, "objects 6"]
    tiles: Float[Tensor, " objects"]
    light: Float[Tensor, " 3"]


class View(NamedTuple):
    """What a camera sees: colours from 0 to 1, z in the axes of the camera, and numbers of objects."""

    colours: Float[Tensor, "3 height width"]
    depth: Float[Tensor, "height width"]
    objects: Int[Tensor, "height width"]


class _Hits(NamedTuple):
    """The nearest surface on each ray so far; `across` is the cosine between ray and normal."""

    distance: Float[Tensor, " rays"]
    object: Int[Tensor, " rays"]
    texture: Int[Tensor, " rays"]
    place: Float[Tensor, "rays 2"]
    across: Float[Tensor, " rays"]
    shade: Float[Tensor, " rays"]


def mipmaps(images: Float[Tensor, "textures side side 3"]) -> Textures:
    """Textures of square images, down to a side of 4 pixels."""
    levels = [images.permute(0, 3, 1, 2)]
    while levels[-1].shape[-1] > 4:
        levels.append(torch.nn.functional.avg_pool2d(levels[-1], 2))
    sides = torch.tensor([level.shape[-1] for level in levels], device=images.device)
    areas = sides.square()
    starts = (areas.cumsum(0) - areas) + areas.sum() * torch.arange(len(images), device=images.device)[:, None]
    texels = torch.cat([level.flatten(2) for level in levels], dim=-1)  # (textures, 3, all levels)
    return Textures(texels.permute(0, 2, 1).reshape(-1, 3).contiguous(), starts, sides)


def rays(intrinsics: Float[Tensor, " 4"], height: int, width: int) -> Float[Tensor, "rays 3"]:
    """Unit directions through the centres of all pixels in the axes of the camera, row by row.

    Args:
        intrinsics: fx, fy, cx, cy in pixels, the corner of the image at (0, 0) and the centre of its first pixel at
            (½, ½).
    """
    fx, fy, cx, cy = intrinsics.unbind()
    y = (torch.arange(height, dtype=fx.dtype, device=fx.device) + 0.5 - cy) / fy
    x = (torch.arange(width, dtype=fx.dtype, device=fx.device) + 0.5 - cx) / fx
    y, x = torch.meshgrid(y, x, indexing="ij")
    return torch.nn.functional.normalize(torch.stack((x, y, torch.ones_like(x)), dim=-1).reshape(-1, 3), dim=-1)


def render(
    scene: Scene,
    textures: Textures,
    pose: Float[Tensor, "4 4"],
    intrinsics: Float[Tensor, " 4"],
    height: int,
    width: int,
) -> View:
    """What a camera inside the room sees, with one ray for each pixel and light that does not depend on the camera.

    Args:
        pose: camera-to-world with the axes of OpenCV.
    """
    local = rays(intrinsics, height, width)
    directions, origin = local @ se3.rotation(pose).mT, se3.translation(pose)
    everywhere = torch.arange(len(local), device=local.device)
    hits = _surface(scene, 0, origin, directions, everywhere, torch.full_like(local[:, 0], torch.inf))[1]
    towards = scene.centres - origin
    radii = scene.halves[:, 0].where(scene.spheres, scene.halves.norm(dim=-1))  # of the ball around each object
    least = (towards.square().sum(-1) - radii.square()).clamp_min(0).sqrt()  # 0 inside a ball
    candidates = directions @ towards.mT > least.where(least > 0, -torch.inf)
    for number in range(1, len(scene.centres)):
        seen = candidates[:, number].nonzero()[:, 0]
        seen, found = _surface(scene, number, origin, directions, seen, hits.distance[seen])
        for values, new in zip(hits, found, strict=True):
            values[seen] = new
    footprint = hits.distance / (intrinsics[:2].mean() * hits.across.clamp_min(0.2) * scene.tiles[hits.object])
    colours = _sample(textures, hits.texture, hits.place, footprint) * hits.shade[:, None]
    return View(
        colours.clamp(0, 1).mT.unflatten(-1, (height, width)),
        (hits.distance * local[:, 2]).unflatten(0, (height, width)),
        hits.object.unflatten(0, (height, width)),
    )


def _surface(
    scene: Scene,
    number: int,
    origin: Float[Tensor, " 3"],
    directions: Float[Tensor, "rays 3"],
    seen: Int[Tensor, " seen"],
    limit: Float[Tensor, " seen"],
) -> tuple[Int[Tensor, " hit"], _Hits]:
    """The rays among `seen` that meet an object nearer than `limit`, and where; they meet the room from inside."""
    axes, half = scene.axes[number], scene.halves[number]
    o, d = (origin - scene.centres[number]) @ axes, directions.index_select(0, seen) @ axes
    if scene.spheres[number]:
        along = d @ o
        discriminant = along.square() - o.square().sum() + half[0].square()
        distance = -along - discriminant.clamp_min(0).sqrt()
        hit = (discriminant > 0) & (distance > 0) & (distance < limit)
    else:
        walls = torch.stack((-half - o, half - o))[..., None, :] / d  # (2, seen, 3)
        near, near_axis = walls.amin(0).max(-1)
        far, far_axis = walls.amax(0).min(-1)
        distance, axis = (far, far_axis) if number == 0 else (near, near_axis)
        hit = (near < far) & (distance > 0) & (distance < limit)
    hit = hit.nonzero()[:, 0]
    seen, d, distance = seen[hit], d[hit], distance[hit]
    p = o + distance[:, None] * d
    if scene.spheres[number]:
        normal = p / half[0]
        longitude, latitude = torch.atan2(normal[:, 1], normal[:, 0]), normal[:, 2].clamp(-1, 1).asin()
        place = half[0] * torch.stack((longitude, latitude), dim=-1)
        face = torch.zeros_like(seen)
    else:
        axis = axis[hit]
        side = p.gather(1, axis[:, None])[:, 0].sign()
        normal = torch.nn.functional.one_hot(axis, 3) * side[:, None] * (-1 if number == 0 else 1)
        first, second = (axis == 0).long(), 2 - (axis == 2).long()  # the two other axes
        place = torch.stack((p.gather(1, first[:, None]), p.gather(1, second[:, None])), dim=1)[..., 0]
        face = 2 * axis + (side > 0)
    shade = 0.55 + 0.5 * (normal @ (scene.light @ axes)).clamp_min(0)
    owner, texture = torch.full_like(seen, number), scene.textures[number, face]
    return seen, _Hits(distance, owner, texture, place / scene.tiles[number], -(normal * d).sum(-1), shade)


def _sample(
    textures: Textures,
    number: Int[Tensor, " rays"],
    place: Float[Tensor, "rays 2"],
    footprint: Float[Tensor, " rays"],
) -> Float[Tensor, "rays 3"]:
    """Bilinear colours at places in tiles, which alternate with their mirror images; a pixel's width is `footprint`."""
    level = (footprint * textures.sides[0]).clamp_min(1e-6).log2().round().clamp(0, len(textures.sides) - 1).long()
    side = textures.sides[level]
    place = 1 - (1 - (place + 0.5).remainder(2)).abs()
    place = (place * side[:, None] - 0.5).clamp_min(0).minimum((side - 1)[:, None])
    corner = place.long().minimum((side - 2)[:, None])
    weight = place - corner
    start = textures.starts[number, level] + corner[:, 1] * side + corner[:, 0]
    x, y = weight[:, :1], weight[:, 1:]
    a, b, c, d = (textures.texels.index_select(0, start + offset) for offset in (0, 1, side, side + 1))
    return torch.lerp(torch.lerp(a, b, x), torch.lerp(c, d, x), y)
