import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from niso.geometry.shifts import Shifts

sizes = st.sampled_from([1, 2, 3, 4, 5, 8])
offsets = st.tuples(st.integers(-50, 50), st.integers(-50, 50))


def functions(size: int, batch: int = 2, channels: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(size)
    return torch.randn(batch, size * size, channels, generator=generator, dtype=torch.float64)


@given(sizes, offsets, offsets)
def test_shift_is_torch_roll(size, first, second):
    x = functions(size)
    shifted = Shifts(size).act(x, torch.tensor([first, second]))
    images = x.unflatten(1, (size, size))
    rolled = [image.roll(by, dims=(0, 1)) for image, by in zip(images, (first, second), strict=True)]
    assert torch.equal(shifted, torch.stack(rolled).flatten(1, 2))


@given(sizes, offsets, offsets)
def test_shifts_form_a_group(size, first, second):
    action = Shifts(size)
    x, one, two = functions(size), torch.tensor([first] * 2), torch.tensor([second] * 2)
    assert torch.equal(action.act(action.act(x, one), two), action.act(x, one + two))
    assert torch.equal(action.act(action.act(x, one), -one), x)
    assert torch.equal(action.act(x, torch.tensor([[0, 0], [size, -size]])), x)


def test_shift_refuses_other_grids():
    with pytest.raises(ValueError, match="15 points are not a 4×4 grid"):
        Shifts(4).act(torch.zeros(1, 15, 1), torch.zeros(1, 2, dtype=torch.long))


def test_strength_is_the_shortest_way_round():
    action, t = Shifts(8), torch.tensor([[0, 0], [3, 4], [5, -4], [7, 0], [-8, 16]])
    assert action.strength(t).tolist() == [0, 5, 5, 1, 0]


def test_samples_are_the_numbers_of_earlier_records(generator):
    expected = torch.randint(8, (5, 2), generator=torch.Generator().manual_seed(0))
    assert torch.equal(Shifts(8).sample(5, generator), expected)


def test_a_torus_without_points_is_refused():
    with pytest.raises(ValueError, match="must be positive, not 0"):
        Shifts(0)
