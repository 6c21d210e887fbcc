"""Some of many, with and without the last."""

import pytest

from niso.data.evenly import evenly


def test_places_are_at_even_distances():
    assert evenly(3, 9).tolist() == [0, 3, 6] and evenly(20, 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("total", "count", "expected"), [(5, 9, [0, 1, 2, 3, 4]), (9, 3, [0, 4, 8]), (1, 3, [0]), (0, 3, []), (9, 1, [0])]
)
def test_the_first_and_the_last_are_among_those_taken(total, count, expected):
    assert evenly(count, total, last=True).tolist() == expected
