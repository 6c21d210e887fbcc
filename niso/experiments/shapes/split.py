"""Which shapes a run trains, validates and tests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from niso.data.shapes import prepared
from niso.data.shapes.prepared import PreparedShapes
from niso.errors import InputError, nearest
from niso.experiments.shapes.presets import ShapesConfig


class Split(NamedTuple):
    """Numbers of shapes.

    Attributes:
        train: to train on.
        validation: to validate on: nothing is trained on them.
        test: to test on.
    """

    train: Int[Tensor, " train"]
    validation: Int[Tensor, " validation"]
    test: Int[Tensor, " test"]


def split(shapes: PreparedShapes, config: ShapesConfig, seed: int) -> Split:
    """Draw the shapes of each class to train, validate and test on.

    Raises:
        InputError: a class has too few shapes.
    """
    labels, per_class = shapes.labels, config.train_shapes + config.test_shapes
    trained, test = prepared.split(labels, seed, per_class, config.train_shapes, classes=shapes.classes)
    return Split(*last_of_each_class(trained, labels, config.validation_shapes), test)


def without_small_classes(
    shapes: PreparedShapes, leave_out: Sequence[str], per_class: int
) -> tuple[PreparedShapes, dict[str, int]]:
    """Shapes of all classes but those to leave out and those with fewer than `per_class` shapes; sizes of the latter.

    Small classes stay, for `split` to refuse, where fewer than two others remain.

    Raises:
        InputError: a class to leave out does not exist, or nothing remains.
    """
    if unknown := sorted(set(leave_out) - set(shapes.classes)):
        raise InputError(f"no class {unknown[0]!r} to leave out{nearest(unknown[0], shapes.classes)}")
    if not set(shapes.classes) - set(leave_out):
        raise InputError(f"all classes of {shapes.folder} are left out: keep some")
    shapes = shapes.without(leave_out) if leave_out else shapes
    sizes = dict(zip(shapes.classes, torch.bincount(shapes.labels).tolist(), strict=True))
    small = {name: size for name, size in sizes.items() if size < per_class}
    if not small or len(sizes) - len(small) < 2:
        return shapes, {}
    return shapes.without(small), small


def last_of_each_class(
    members: Int[Tensor, " members"], labels: Int[Tensor, " shapes"], count: int
) -> tuple[Int[Tensor, " others"], Int[Tensor, " last"]]:
    """Members without the last `count` of each class, and these."""
    classes = labels[members]
    place_from_end = torch.stack([(classes[index:] == classes[index]).sum() for index in range(len(members))])
    last = place_from_end <= count
    return members[~last], members[last]
