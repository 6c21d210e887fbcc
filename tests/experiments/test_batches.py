"""Batches that a method's losses cannot be computed from are refused before anything is trained."""

from unittest.mock import Mock

import pytest

from niso.config import Optimisation
from niso.errors import InputError
from niso.experiments.experiment import check_batch
from niso.methods.method import Method

GROUPS = Mock(spec=Method, group=4, compared=1)


@pytest.mark.parametrize(
    ("size", "parts", "words"),
    [
        (5, 4, "batch size 5 does not divide among 1 processes in 4 parts each"),
        (24, 5, "batch size 24 does not divide among 1 processes in 5 parts each"),
        (18, 3, "cannot be cut into groups of 4"),
        (3, 1, "cannot be cut into groups of 4"),
    ],
)
def test_parts_that_do_not_fit(size, parts, words):
    with pytest.raises(InputError, match=words):
        check_batch(GROUPS, Optimisation(batch_size=size, accumulation=parts))


def test_too_few_to_compare():
    check_batch(GROUPS, Optimisation(batch_size=24, accumulation=3))
    with pytest.raises(InputError, match="compare at least 3 pairs, and a step has 2"):
        check_batch(Mock(spec=Method, group=1, compared=3), Optimisation(batch_size=4, accumulation=2))


@pytest.mark.parametrize("experiment", ["homnist", "shapes", "pose", "pairs"])
def test_batches_of_heads_are_refused_before_pretraining(make_tiny, experiment):
    with pytest.raises(InputError, match="batch size 4 does not divide among 1 processes in 3 parts each"):
        make_tiny(experiment, head={"batch_size": 4, "accumulation": 3})
