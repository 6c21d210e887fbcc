"""Random rooms with objects, and hand-held cameras that go round them, through them, anywhere, or turn in one place."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry import se3
from niso.geometry.raycast import Scene

_CLEARANCE = 0.3  # least distance of a camera from an object


def orbit(frames: int, generator: np.random.Generator) -> Float[Tensor, "frames 4 4"]:
    """A hand-held camera that goes round what stands in the middle and looks at it, 1.5° to 4.5° a frame."""
    rate = np.deg2rad(generator.uniform(1.5, 4.5)) * generator.choice((-1, 1))
    angle = generator.uniform(0, 2 * np.pi) + np.cumsum(rate * (1 + 0.25 * _wander(frames, generator)))
    radius = generator.uniform(1.4, 1.8) + 0.08 * _wander(frames, generator)
    height = generator.uniform(0.9, 1.6) + 0.08 * _wander(frames, generator)
    target = np.array([0, 0, generator.uniform(0.4, 0.7)]) + 0.06 * _wander(frames, generator, 3)
    place = np.stack((radius * np.cos(angle), radius * np.sin(angle), height), axis=-1)
    return _hand_held(place, target - place, generator)


def walk(frames: int, generator: np.random.Generator) -> Float[Tensor, "frames 4 4"]:
    """A hand-held camera that is carried through the room, about 2.5 to 7 cm a frame, and looks about."""
    sense = generator.choice((-1, 1))
    radius = generator.uniform(1.3, 1.8) + 0.2 * _wander(frames, generator, slowest=120.0)
    rate = sense * generator.uniform(0.02, 0.05) / radius * (1 + 0.3 * _wander(frames, generator))
    angle = generator.uniform(0, 2 * np.pi) + np.cumsum(rate)
    height = generator.uniform(1.1, 1.6) + 0.04 * _wander(frames, generator, slowest=20.0)
    place = np.stack((radius * np.cos(angle), radius * np.sin(angle), height), axis=-1)
    heading = angle + sense * np.pi / 2 + generator.uniform(-0.8, 0.8) + 0.4 * _wander(frames, generator, slowest=90.0)
    pitch = generator.uniform(-0.35, -0.05) + 0.08 * _wander(frames, generator)
    return _hand_held(place, np.stack((np.cos(heading), np.sin(heading), np.tan(pitch)), axis=-1), generator)


def free(frames: int, generator: np.random.Generator) -> Float[Tensor, "frames 4 4"]:
    """A camera moved about by hand, slowly or fast: where it goes says nothing of how it turns.

    The median speed of the intended path is from about 0.6 to 10 cm a frame, and 0.24° to 3.2° a frame, each evenly by
    its logarithm. The unsteady hand adds to both.
    """
    slowest = 60.0
    reach, angles = np.exp(generator.uniform(np.log((0.004, 0.3)), np.log((0.08, 4.0)))) * slowest / (4 * np.pi)
    swing = np.deg2rad(angles) * _wander(frames, generator, 2, slowest)
    angle, radius = generator.uniform(0, 2 * np.pi), generator.uniform(0.9, 1.5)
    start = np.array([radius * np.cos(angle), radius * np.sin(angle), generator.uniform(1.0, 1.6)])
    moved = reach * _wander(frames, generator, 3, slowest)
    place = start + np.clip(moved - moved[frames // 2], (-0.9, -0.9, -0.5), (0.9, 0.9, 0.5))
    heading = generator.uniform(0, 2 * np.pi) + swing[:, 0]
    pitch = np.clip(generator.uniform(-0.5, 0.1) + 0.5 * swing[:, 1], -1.0, 1.0)
    return _hand_held(place, np.stack((np.cos(heading), np.sin(heading), np.tan(pitch)), axis=-1), generator)


def turn(frames: int, generator: np.random.Generator) -> Float[Tensor, "frames 4 4"]:
    """A camera that turns as a `free` one does and does not move: its frames are related by homographies, exactly."""
    poses = free(frames, generator)
    return se3.pose(se3.rotation(poses), se3.translation(poses)[:1].expand(frames, 3))


def room(cameras: Float[Tensor, "frames 4 4"], textures: int, generator: np.random.Generator) -> Scene:
    """A room with a table, objects on it, along the walls and in the air, none of them where a camera passes.

    Args:
        textures: how many there are to choose from.
    """
    places = se3.translation(cameras).double().numpy()
    wide, deep, high = generator.uniform((2.6, 2.6, 1.2), (3.4, 3.4, 1.5))
    table = generator.uniform((0.35, 0.35, 0.15), (0.7, 0.7, 0.3))
    objects = [
        ((0.0, 0.0, high), (wide, deep, high), 0.0, False),
        ((0.0, 0.0, table[2]), table, _turn(generator), False),
    ]
    for _ in range(generator.integers(4, 7)):  # on the table
        half, sphere = _size(generator, 0.08, 0.28)
        x, y = generator.uniform(-0.8, 0.8, 2) * table[:2]
        objects.append(((x, y, 2 * table[2] + half[2]), half, _turn(generator), sphere))
    for _ in range(generator.integers(8, 13)):  # along the walls
        half, sphere = _size(generator, 0.2, 0.55)
        x, y = generator.uniform(-1, 1, 2) * (wide - half[0], deep - half[1])
        along = generator.integers(4)
        x = (wide - half[0]) * (1 if along == 0 else -1) if along < 2 else x
        y = (deep - half[1]) * (1 if along == 2 else -1) if along >= 2 else y
        objects.append(((x, y, half[2]), half, 0.0, sphere))
    for _ in range(generator.integers(2, 5)):  # in the air
        half, sphere = _size(generator, 0.08, 0.25)
        x, y = generator.uniform(-0.9, 0.9, 2) * (wide, deep)
        objects.append(((x, y, generator.uniform(1.3, 2.0)), half, _turn(generator), sphere))
    kept = [item for number, item in enumerate(objects) if number == 0 or _clear(item, places)]
    centres, halves, turns, spheres = zip(*kept, strict=True)
    light = generator.normal(size=3) * (1, 1, 0.2) + (0, 0, 1)
    return Scene(
        _tensor(centres),
        _tensor([[[np.cos(t), -np.sin(t), 0], [np.sin(t), np.cos(t), 0], [0, 0, 1]] for t in turns]),
        _tensor(halves),
        torch.tensor(spheres),
        torch.from_numpy(generator.integers(textures, size=(len(kept), 6))),
        _tensor([generator.uniform(1.6, 2.6), *(2 * max(half) * generator.uniform(0.7, 1.2) for half in halves[1:])]),
        _tensor(light / np.linalg.norm(light)),
    )


def _turn(generator: np.random.Generator) -> float:
    return float(generator.uniform(0, np.pi))


def _size(generator: np.random.Generator, least: float, most: float) -> tuple[np.ndarray, bool]:
    """Half sides of a box, or a sphere's radius; and whether it is a sphere."""
    if generator.random() < 0.4:
        return np.full(3, generator.uniform(least, most)), True
    return generator.uniform(least, most, 3), False


def _clear(item: tuple, places: np.ndarray) -> bool:
    centre, half, turn, sphere = item
    offset = places - centre
    if sphere:
        return bool((np.linalg.norm(offset, axis=1) > half[0] + _CLEARANCE).all())
    cos, sin = np.cos(turn), np.sin(turn)
    local = offset @ np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    return bool((np.abs(local) > np.asarray(half) + _CLEARANCE).any(axis=1).all())


def _hand_held(places: np.ndarray, forward: np.ndarray, generator: np.random.Generator) -> Float[Tensor, "frames 4 4"]:
    """Upright cameras at places that look forward, and the unsteadiness of a hand."""
    forward = forward / np.linalg.norm(forward, axis=-1, keepdims=True)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right, axis=-1, keepdims=True)
    axes = np.stack((right, np.cross(forward, right), forward), axis=-1)
    poses = se3.pose(torch.from_numpy(axes), torch.from_numpy(places))
    frames = len(places)
    tremor = np.zeros((frames, 6))
    tremor[:, :3] = 0.004 * _wander(frames, generator, 3, slowest=8.0)
    tremor[:, 3:] = np.deg2rad(0.8) * _wander(frames, generator, 3)
    tremor[:, 3:] += np.deg2rad(0.15) * _wander(frames, generator, 3, slowest=5.0)
    return poses @ se3.exp(torch.from_numpy(tremor))


def _wander(
    frames: int, generator: np.random.Generator, dimensions: int | None = None, slowest: float = 60.0
) -> np.ndarray:
    """Smooth noise of variance 1: three sines with periods between slowest / 3 and `slowest` frames."""
    shape = (3, *(() if dimensions is None else (dimensions,)))
    frequency = 2 * np.pi / (slowest * generator.uniform(1 / 3, 1, shape))
    phase = generator.uniform(0, 2 * np.pi, shape)
    time = np.arange(frames).reshape(-1, *(1 for _ in shape))
    return np.sqrt(2 / 3) * np.sin(frequency * time + phase).sum(1)


def _tensor(values: object) -> Tensor:
    return torch.from_numpy(np.asarray(values, np.float32))
