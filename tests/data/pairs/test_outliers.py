"""A value far outside of all others is named with its row; other units, and what merely varies, are not."""

import numpy as np
import pytest

from niso.data.pairs.outliers import outliers
from niso.data.pairs.reading import Reading
from niso.data.pairs.scaling import bounds_of, scaling_of
from niso.data.pairs.table import make_table

N = 300
SHAPES = {"images": (8, 8), "signals": (16, 2), "points": (20, 1)}


def found(kind, **columns):
    table = make_table("DATA", columns, Reading(kind=kind))
    return outliers(table.views, bounds_of(table, scaling_of(table, np.arange(N))))


def values(kind, seed=0):
    return np.random.default_rng(seed).standard_normal((N, *SHAPES[kind])).astype(np.float32)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("value", [1e4, -1e4, 500])
@pytest.mark.parametrize("view", ["x", "tx", "ttx"])
def test_the_row_of_a_value_that_is_far_off_is_named(kind, value, view):
    views = {name: values(kind, seed) for seed, name in enumerate(("x", "tx", "ttx"))}
    views[view].reshape(N, -1)[17, 0] = value
    rows, text = found(kind, **views)
    assert rows.tolist() == [17] and text.startswith(f"row 17 of {view} holds {value:.3g}")
    assert " of the other rows: repair it, or leave it out" in text
    assert ("in channel 0" in text) == (kind == "signals")


def test_several_rows_are_counted():
    x = values("signals")
    x[[5, 40, 90], 3, 1] = 1e3, -2e3, 1e3
    rows, text = found("signals", x=x, tx=x[:, ::-1])
    assert rows.tolist() == [5, 40, 90]
    assert text.startswith("row 40 of x holds -2e+03 in channel 1, and 2 more like it, far outside the -")


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        lambda x: x / 255,  # other units
        lambda x: x**3,
        lambda x: np.exp(2 * x),
        lambda x: np.where(np.arange(N).reshape(-1, *[1] * (x.ndim - 1)) % 10, 0, x),  # mostly blank
        lambda x: 300 + 1e-5 * x,  # no more than rounding
        lambda x: np.where(abs(x) > 4, 1, 0 * x),  # nearly constant
    ],
)
def test_what_merely_varies_is_not_named(kind, change):
    x = values(kind)
    assert found(kind, x=x, tx=change(x).astype(np.float32))[1] == ""
    assert found(kind, x=change(x).astype(np.float32))[1] == ""


def test_pictures_in_bytes_have_none():
    x = np.zeros((N, 8, 8), np.uint8)
    x[3] = 255
    assert found("images", x=x)[1] == ""
