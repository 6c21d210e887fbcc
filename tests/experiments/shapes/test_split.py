"""Which shapes a run trains, validates and tests on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from niso.data.shapes.prepared import PreparedShapes
from niso.errors import InputError
from niso.experiments.shapes.presets import ShapesConfig
from niso.experiments.shapes.split import split

CONFIG = ShapesConfig(train_shapes=10, test_shapes=4)


def shapes(*sizes: int) -> PreparedShapes:
    """Classes of these sizes, without files."""
    classes = ["cat", "dog", "owl"][: len(sizes)]
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    names = [f"{classes[label]}/{number}" for number, label in enumerate(labels.tolist())]
    return PreparedShapes(Path("none"), names, classes, labels, height=4, width=8, channels=2, variants=3)


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_as_many_are_drawn_of_each_class_and_none_twice(seed: int) -> None:
    drawn = split(some := shapes(20, 14, 17), CONFIG, seed)
    assert torch.bincount(some.labels[drawn.train]).tolist() == [10] * 3
    assert torch.bincount(some.labels[drawn.test]).tolist() == [4] * 3
    assert len({*drawn.train.tolist(), *drawn.test.tolist()}) == 42 and not len(drawn.validation)


def test_the_draw_depends_on_the_seed_alone() -> None:
    drawn = [split(shapes(20, 14, 17), CONFIG, seed).test.tolist() for seed in range(50)]
    assert drawn == [split(shapes(20, 14, 17), CONFIG, seed).test.tolist() for seed in range(50)]
    assert len({tuple(test) for test in drawn}) == 50
    assert {number for test in drawn for number in test} == set(range(51))  # every shape is held out by some seed


def test_the_last_shapes_to_train_on_of_each_class_validate() -> None:
    some = shapes(20, 14, 17)
    whole, parts = (split(some, replace(CONFIG, validation_shapes=count), 3) for count in (0, 2))
    assert torch.equal(whole.test, parts.test)
    in_classes = whole.train.view(3, 10)
    assert torch.equal(parts.train, in_classes[:, :8].flatten())
    assert torch.equal(parts.validation, in_classes[:, 8:].flatten())


def test_too_few_shapes_are_named() -> None:
    few = shapes(20, 14, 13)
    with pytest.raises(
        InputError,
        match=r"14 of each class are needed, 10 to train on and 4 .*: owl \(13\); add some, .*--train-shapes and --",
    ):
        split(few, CONFIG, 0)
    with pytest.raises(InputError, match=r"5 for the test: dog \(14\), owl \(13\)"):
        split(few, replace(CONFIG, test_shapes=5), 0)
