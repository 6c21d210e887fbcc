"""Other units are told by the spread, and observations like those trained on are not, however these are distributed."""

import numpy as np
import pytest
import torch

from niso.data.pairs.reading import Reading
from niso.data.pairs.sampling.choose import pair_data
from niso.data.pairs.spread import spread_of, unlike
from niso.data.pairs.table import make_table

N, SHAPE = 2_000, (2, 30)


def noise(seed, rows=N):
    return np.random.default_rng(seed).standard_normal((rows, *SHAPE))


def row(values):
    return values[:, :1, :1]


DISTRIBUTIONS = {
    "noise": noise,
    "heavy tails": lambda seed: noise(seed) ** 5,
    "levels": lambda seed: 100 * row(noise(seed)) + noise(seed + 1),
    "rare levels": lambda seed: 1e3 * (row(noise(seed)) > 2) + noise(seed + 1),
    "bursts": lambda seed: np.where(row(noise(seed)) > 1.7, 100, 1) * noise(seed + 1),
    "loudness": lambda seed: np.exp(2 * row(noise(seed))) * noise(seed + 1),
    "half blank": lambda seed: (row(noise(seed)) > 0) * noise(seed + 1),
    "mostly blank": lambda seed: (row(noise(seed)) > 1) * noise(seed + 1),
    "two groups": lambda seed: 50 * np.sign(row(noise(seed))) + noise(seed + 1),
    "one blank channel": lambda seed: noise(seed) * np.array([1, 0])[:, None],
}


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_observations_of_the_same_distribution_are_not_asked_about(name, alike):
    trained = [spread_of(torch.from_numpy(DISTRIBUTIONS[name](0)), alike)]
    others = torch.from_numpy(DISTRIBUTIONS[name](100))
    asked = sum(unlike(part, trained) is not None for part in others.split(8))
    assert asked <= 0.03 * N / 8
    assert all(unlike(part, trained) is None for part in others.split(100))


def test_a_part_of_the_data_is_not_asked_about():
    """As one class of several: stations of other levels, quiet among loud."""
    levels, kind = np.linspace(-12, 29, 10), np.random.default_rng(0).integers(0, 10, N)
    stations = levels[kind][:, None, None] + 3 * noise(0)
    loud = np.where(kind[:, None, None] < 8, 1.0, 0.2) * noise(1)
    for x in (stations, loud):
        trained = [spread_of(torch.from_numpy(x[::2]), alike=True)]
        for one in range(10):
            assert unlike(torch.from_numpy(x[1::2][kind[1::2] == one]), trained) is None
        assert unlike(torch.from_numpy(x[1::2] / 10), trained) == 0


@pytest.mark.parametrize("change", [lambda x: x / 8 + 0.5, lambda x: x + 3, lambda x: x - 3, lambda x: x / 100])
def test_other_units_are_told(change):
    trained, others = [spread_of(torch.from_numpy(noise(0)), alike=False)], noise(100, 8)
    wrong = others.copy()
    wrong[:, 1] = change(others[:, 1])
    assert unlike(torch.from_numpy(wrong), trained) == 1
    few = np.concatenate([change(others[:1]), noise(1, 9)])
    assert unlike(torch.from_numpy(few), trained) is None
    assert unlike(torch.from_numpy(change(others)), [spread_of(torch.from_numpy(noise(0)), alike=True)]) == 0


@pytest.mark.parametrize("transform", [None, "shift"])
def test_every_view_that_is_trained_on_is_known(transform):
    x = noise(0, 200).swapaxes(1, 2)
    columns = {"x": x} if transform else {"x": x, "tx": 0.1 * x + 3}
    table = make_table("DATA", columns, Reading(kind="signals"))
    data = pair_data(table, Reading(transform=transform), 0.1, 0.1, torch.device("cpu"))
    before = torch.get_rng_state()
    spreads = data.spreads
    assert len(spreads) == 2 and torch.equal(torch.get_rng_state(), before)
    rows = torch.arange(20)
    views = [data.view(name, rows).movedim(-1, 1) for name in table.views]
    assert all(unlike(view, spreads) is None for view in views)
    if transform is None:
        assert unlike(views[1], spreads[:1]) == 0


def test_pictures_in_bytes_may_be_dark():
    x = np.random.default_rng(0).integers(256, size=(40, 8, 8), dtype=np.uint8)
    table = make_table("DATA", {"x": x}, Reading())
    data = pair_data(table, Reading(transform="rotation"), 0.1, 0.1, torch.device("cpu"))
    assert data.spreads == []
