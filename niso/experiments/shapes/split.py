"""Which shapes a run trains, validates and tests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from niso.data.shapes.prepared import PreparedShapes
from niso.errors import InputError, nearest
from niso.experiments.shapes.presets import ShapesConfig
from niso.random import step_seed


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
    """Draw the shapes of each class: the first to train on, the last of these to validate on, and others to test on.

    Raises:
        InputError: a class has too few shapes; all such classes are named.
    """
    train, test = config.train_shapes, config.test_shapes
    members = [torch.nonzero(shapes.labels == label)[:, 0] for label in range(len(shapes.classes))]
    sizes = zip(shapes.classes, map(len, members), strict=True)
    if few := [f"{name} ({size})" for name, size in sizes if size < train + test]:
        raise InputError(
            f"too few shapes, where {train + test} of each class are needed, {train} to train on and {test} for the "
            f"test: {', '.join(few)}; add some, or give smaller --train-shapes and --test-shapes"
        )
    generator = torch.Generator().manual_seed(step_seed(seed, 0, "split of shapes"))
    drawn = [numbers[torch.randperm(len(numbers), generator=generator)[: train + test]] for numbers in members]
    parts = (numbers.tensor_split((train - config.validation_shapes, train)) for numbers in drawn)
    return Split(*map(torch.cat, zip(*parts, strict=True)))


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
