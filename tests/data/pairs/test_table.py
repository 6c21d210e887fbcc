"""What arrays are read as, and that whatever cannot be used is refused in one line."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from niso.data.pairs.arrays import ArrayReader, columns_of
from niso.data.pairs.doubts import extremes_of, other_units
from niso.data.pairs.find import find_reader
from niso.data.pairs.reading import Reading
from niso.data.pairs.scaling import (
    bounds_of,
    ranges_of,
    sample,
    scaled,
    scaling_of,
    units_of,
    unscaled,
)
from niso.data.pairs.table import blocks, make_table
from niso.data.pairs.tensors import as_tensor
from niso.errors import InputError

N = 16


def noise(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal((N, *shape)).astype(dtype)


def table(reading=None, **columns):
    return make_table("DATA", columns, reading or Reading())


@pytest.mark.parametrize(
    ("shape", "extra", "kind", "observed"),
    [
        ((3, 8, 10), {}, "images", (3, 8, 10)),
        ((8, 8), {}, "images", (1, 8, 8)),
        ((2, 6, 8, 10), {}, "volumes", (2, 6, 8, 10)),
        ((3, 4, 4, 4), {}, "volumes", (3, 4, 4, 4)),
        ((30, 2), {}, "signals", (30, 2)),
        ((30,), {}, "signals", (30, 1)),
        ((30, 40), {"points": noise(30, 2)[0]}, "points", (30, 40)),
    ],
)
def test_kinds_are_told_by_shape(shape, extra, kind, observed):
    read = table(x=noise(*shape), tx=noise(*shape), **extra)
    assert (read.kind, read.shape, len(read)) == (kind, observed, N)


def test_a_kind_that_shape_does_not_tell_is_asked_for():
    x = noise(30, 40)
    with pytest.raises(InputError, match=r"images \(n, H, W\) or signals \(n, L, C\)\? Say so by --kind"):
        table(x=x)
    assert table(Reading(kind="images"), x=x).shape == (1, 30, 40)
    assert table(Reading(kind="signals"), x=x).shape == (30, 40)
    with pytest.raises(InputError, match="with channels last"):
        table(Reading(kind="images"), x=noise(16, 16, 3))
    for small in ((8, 3, 3), (2, 16, 16), (16, 12, 8), (20, 48, 20)):
        assert table(x=noise(*small)).shape == small
    with pytest.raises(
        InputError, match=r"images of 20 channels, say --kind images; if volumes \(n, D, H, W\), say --kind volumes"
    ):
        table(x=noise(20, 32, 17))
    assert table(Reading(kind="images"), x=noise(20, 32, 17)).shape == (20, 32, 17)
    assert table(Reading(kind="volumes"), x=noise(20, 32, 17)).shape == (1, 20, 32, 17)
    assert table(Reading(kind="volumes"), x=noise(9, 9, 3)).shape == (1, 9, 9, 3)
    assert table(Reading(kind="volumes"), x=noise(9, 9, 9, 3)).shape == (9, 9, 9, 3)
    for narrow in (
        (8, 16, 4),
        (16, 16, 5),
        (16, 16, 8),
        (9, 9, 200),
        (32, 48, 13),
    ):  # with channels last unless a user says otherwise
        with pytest.raises(InputError, match=r"with channels last: .* say --kind images"):
            table(x=noise(*narrow))
        assert table(Reading(kind="images"), x=noise(*narrow)).shape == narrow


def test_signals_with_channels_first_are_not_read_as_a_few_samples_of_many_channels():
    signals = Reading(kind="signals")
    with pytest.raises(InputError, match=r"signals of one sample: give \(n, L, C\), in NumPy x.transpose\(0, 2, 1\)"):
        table(signals, x=noise(1, 64))
    with pytest.raises(InputError, match=r"if they are signals \(n, C, L\), give in NumPy x.transpose"):
        table(x=noise(12, 128))
    said = "signals are read as 12 samples of 128 channels: if they are 12 channels of 128 samples, give them in NumPy"
    assert said in table(signals, x=noise(12, 128)).note
    for right in ((128, 12), (64, 128), (12, 16), (50,)):
        assert not table(signals, x=noise(*right)).note


def test_bytes_are_pictures_only_where_both_sides_are_large():
    read = [table(x=np.zeros((N, *shape), np.uint8)) for shape in ((100, 80), (100, 3))]
    assert [(of.kind, of.shape) for of in read] == [("images", (1, 100, 80)), ("signals", (100, 3))]
    with pytest.raises(InputError, match="Say so by --kind"):
        table(x=np.zeros((N, 10, 12), np.uint8))


X = noise(30, 2)
NAN = X.copy()
NAN[7, 3, 1] = np.nan
BAD = {
    "different lengths": ({"x": X, "tx": X[1:]}, "x has 16 observations and tx 15"),
    "different shapes": ({"x": X, "tx": X[:, :-1]}, "both views must have one shape"),
    "different types": ({"x": X, "tx": X.astype(np.float64)}, "x is of type float32 and tx of float64"),
    "NaN": ({"x": X, "tx": NAN}, r"tx\[7\] holds NaN or infinite values"),
    "land": ({"x": X, "tx": np.where(np.arange(30)[:, None] < 4, np.nan, X)}, "8 of 60 values are NaN .* in every ob"),
    "infinite": ({"x": NAN * np.inf, "tx": X}, r"x\[0\] holds NaN or infinite"),
    "one class": ({"x": X, "label": np.zeros(N, int)}, "all labels are 0: give two classes or more"),
    "labels of another number": ({"x": X, "label": np.arange(5)}, "give one for each observation"),
    "labels that are no classes": ({"x": X, "label": np.linspace(0, 1, N)}, "whole numbers or words"),
    "too few": ({"x": X[:5], "tx": X[:5]}, "at least 15 are needed"),
    "nothing": ({"x": X[:0]}, "x is empty"),
    "no x": ({"tx": X}, "has no x"),
    "a misspelt name": ({"x": X, "lable": np.arange(N)}, "'lable', which is not known; did you mean label"),
    "a file for each": (
        {f"sample{number}": X[0] for number in range(N)},
        r"'sample0' and 15 others: give all observations as one array, numpy.stack\(\[…\]\), named x",
    ),
    "channels last": ({"x": noise(16, 16, 3)}, r"give \(n, C, H, W\), in NumPy x.transpose"),
    "two channels last": ({"x": noise(16, 16, 2)}, r"give \(n, C, H, W\), in NumPy x.transpose"),
    "five channels last": (
        {"x": noise(16, 16, 5)},
        r"transpose\(0, 3, 1, 2\); if it is that already, say --kind images",
    ),
    "a single number": ({"x": np.array(3)}, "x is a single number: give images"),
    "weights alone": ({"x": X, "weights": np.ones(30)}, "x are signals, say --kind points"),
    "a class for each": ({"x": X, "label": np.arange(N)}, "every label occurs once: give classes of several"),
    "objects": ({"x": np.array([{}] * N)}, "Python objects"),
    "words": ({"x": np.array(["a"] * N)}, "give integers or floating-point"),
    "a masked group": ({"x": X, "group": np.ma.masked_equal(np.arange(N) % 4, 2)}, "some values of group are masked"),
    "labels of words and bytes": ({"x": X, "label": np.array(["a", b"b"] * 8, object)}, "whole numbers or words"),
    "labels of several types": ({"x": X, "label": np.array(["a", 3] * 8, object)}, "whole numbers or words"),
    "labels of words and None": ({"x": X, "label": np.array(["a", None] * 8, object)}, r"8 .*label\[1\].* no label"),
    "labels of numbers and NaN": ({"x": X, "label": np.array([1, 2, np.nan, 3] * 4)}, r"4 .*label\[2\].* no label"),
    "a group of numbers and NA": ({"x": X, "group": np.array([1, "<NA>"] * 8, object)}, "8 .* no group: give one"),
    "labels of words, and None as one": (
        {"x": X, "label": np.array(["a", "b", None, "b"] * 4, object).astype(str)},
        r"4 observations \(label\[2\], …\) have no label but 'None': give one, or leave them out",
    ),
    "a group of words, and None as one": (
        {"x": X, "group": np.array(["a", "b", "None", "b"] * 4, object)},
        r"4 .*group\[2\].* no group but 'None': give one",
    ),
    "labels that miss some": (
        {"x": X, "label": np.array(["a", "b", "nan", " "] * 4)},
        r"8 observations \(label\[2\], …\) have no label: give one, or leave them out",
    ),
    "masked": ({"x": np.ma.masked_greater(X, 1)}, "some values of x are masked"),
    "complex": ({"x": X.astype(complex)}, "floating-point numbers, real and imaginary parts as two channels"),
    "six axes": ({"x": noise(2, 3, 4, 5, 6)}, r"give images \(n, C, H, W\) .* volumes \(n, C, D, H, W\)"),
    "volumes with channels last": (
        {"x": noise(8, 8, 8, 2)},
        r"give \(n, C, D, H, W\), in NumPy x.transpose\(0, 4, 1, 2, 3\); if it is that already, say --kind volumes",
    ),
    "ttx alone": ({"x": X, "ttx": X}, "no tx"),
    "points of images": ({"x": noise(3, 8, 8), "points": noise(2)}, "x are images, leave points out"),
    "too many points": ({"x": noise(30, 2), "points": noise(2)}, r"not \(30, 1\), \(30, 2\) or \(30, 3\)"),
    "weights that vanish": ({"x": X, "points": noise(30, 2)[0], "weights": np.zeros(30)}, "finite and positive"),
}


@pytest.mark.parametrize(("columns", "message"), BAD.values(), ids=BAD)
def test_bad_arrays_are_refused_in_one_line(columns, message):
    with pytest.raises(InputError, match=message) as refused:
        make_table("DATA", columns, Reading())
    assert "\n" not in str(refused.value)


def test_a_sample_of_large_observations_is_small():
    images = np.broadcast_to(np.zeros((), np.uint8), (4_096, 3, 512, 512))
    assert sample(images, np.arange(4_096), 4_096).nbytes <= 1 << 29
    assert len(sample(images, np.arange(4_096), 5)) == 5


def test_large_observations_are_looked_at_a_few_at_a_time():
    images = np.broadcast_to(np.zeros(()), (4_096, 3, 256, 256))
    looked = [len(part) for part in blocks(images)]
    assert sum(looked) == len(images) and max(looked) * images[0].nbytes <= 1 << 24
    assert [len(part) for part in blocks(np.broadcast_to(np.zeros(()), (3, 1 << 22)))] == [1, 1, 1]


def test_the_row_of_a_value_that_is_not_finite_is_counted_from_the_first(monkeypatch):
    monkeypatch.setattr("niso.data.pairs.table._BLOCK", 3 * X[0].nbytes)
    x = X.copy()
    x[N - 2, 0] = np.inf
    with pytest.raises(InputError, match=rf"x\[{N - 2}\] holds NaN"):
        table(x=x)


def test_all_observations_lack_values_only_where_the_last_does_too(monkeypatch):
    monkeypatch.setattr("niso.data.pairs.table._BLOCK", X.nbytes // 2)
    x = X.copy()
    x[:, :4] = np.nan
    with pytest.raises(InputError, match="8 of 60 values are NaN"):
        table(x=x)
    x[-1] = X[-1]
    with pytest.raises(InputError, match=r"x\[0\] holds NaN"):
        table(x=x)


def test_matrices_and_arrays_without_masked_values_are_plain_arrays():
    for given in (np.ma.array(X[:, 0]), X[:, 0].view(np.matrix)):
        assert type(table(x=given).views["x"]) is np.ndarray


@pytest.mark.parametrize("dtype", [object, *([np.dtypes.StringDType()] if hasattr(np.dtypes, "StringDType") else [])])
def test_words_may_be_python_objects(dtype):
    read = table(x=X, label=np.array(["b", "a"] * 8, dtype))
    assert read.classes == ("a", "b") and read.label.tolist() == [1, 0] * 8


def test_labels_are_one_however_accents_are_written_and_told_where_they_hardly_differ():
    read = table(x=X, label=np.array(["\u00e9", "e\u0301", "b", "b"] * 4))
    assert read.classes == ("b", "\u00e9") and read.label.tolist() == [1, 1, 0, 0] * 4 and not read.note
    note = table(x=X, label=np.array(["Cat", "cat ", "b", "b"] * 4)).note
    assert note == "classes 'Cat' and 'cat ' differ in blanks or capitals alone"


def test_labels_that_may_stand_for_none_are_counted():
    told = ": if that stands for none, leave their observations out"
    for word in ("NA", "N/A", "#N/A", "null", "NULL", "NaN", "none", "n/a "):
        label = np.array(["a", word, "b", word] * 4)
        assert table(x=X, label=label).note == f"8 labels are {word!r}" + told
        assert table(x=X, label=label.astype("S")).note == f"8 labels are {word!r}" + told
    label = np.array(["a", "b"] * 8, object)
    label[3:6] = "NA", "null", "NA"
    assert table(x=X, label=label).note == "2 labels are 'NA', 1 label is 'null'" + told
    for names in (["Nauru", "null set"], [0, 1], [False, True]):
        assert not table(x=X, label=np.array(names * 8)).note
    short = table(Reading(kind="signals"), x=noise(3, 20), label=np.array(["a", "NA"] * 8)).note
    assert short.startswith("signals are read as 3 samples") and short.endswith("; 8 labels are 'NA'" + told)


def test_weights_have_a_mean_of_one_in_any_unit():
    areas = np.arange(1.0, 31.0)
    for unit in (1e-50, 1.0, 1e300):
        np.testing.assert_allclose(table(Reading(kind="points"), x=X, weights=areas * unit).weights, areas / 15.5)


def test_images_are_scaled_to_minus_one_to_one_and_signals_channel_by_channel():
    rows = np.arange(N)
    pixels = np.full((N, 8, 8), 255, np.uint8)
    assert scaling_of(table(x=pixels), rows) == ((127.5,), (127.5,))
    masks = np.zeros((N, 8, 8), np.uint8)
    masks[0] = 1
    read = table(x=masks)
    scaling = scaling_of(read, rows)
    assert scaling == ((0.5,), (0.5,)) and ranges_of(bounds_of(read, scaling)) == ([0], [1])
    counts = table(Reading(kind="signals"), x=np.arange(N * 50, dtype=np.uint8).reshape(N, 50) % 9)
    assert scaling_of(counts, rows) == scaling_of(replace(counts, views={"x": counts.views["x"].astype(int)}), rows)
    low, high = np.zeros((N, 8, 8)), np.ones((N, 8, 8))
    low[0] = high[0]
    assert scaling_of(table(x=low), rows) == ((0.5,), (0.5,))
    signals = np.stack([5 + 3 * noise(50), np.full((N, 50), 2.0)], axis=-1)
    (first, second), (deviation, constant) = scaling_of(table(x=signals), rows)
    assert abs(first - 5) < 1 and abs(deviation - 3) < 0.5 and (second, constant) == (2.0, 1.0)


def test_channels_of_images_in_different_units_are_scaled_each_by_its_own_range():
    rows, x = np.arange(N), np.random.default_rng(0).random((N, 3, 8, 8))
    x[0, :, 0, :2] = (0, 1)
    assert scaling_of(table(x=x), rows) == ((0.5,), (0.5,)) and not units_of(table(x=x), scaling_of(table(x=x), rows))
    x[:, 1] = 1000 + 3000 * x[:, 1]
    x[:, 2] = 7  # constant
    read = table(x=x)
    scaling = scaling_of(read, rows)
    assert scaling == ((0.5, 2500, 8), (0.5, 1500, 1)) and "each is scaled by its own" in units_of(read, scaling)
    values = torch.from_numpy(x)
    order_one = scaled(values, scaling, True)
    assert order_one.amin((0, 2, 3)).tolist() == [-1, -1, -1] and order_one.amax((0, 2, 3)).tolist() == [1, 1, -1]
    back = unscaled(order_one, scaling, True)
    torch.testing.assert_close(back, values.float())
    x[0, 1, 0, 0] = 1e9
    read = table(x=x)
    assert "nearly all values of channel 1 are between" in extremes_of(read, rows, scaling_of(read, rows))


def test_channels_of_images_that_lie_apart_are_scaled_each_by_its_own_range():
    x, rows = np.random.default_rng(0).uniform(250, 310, (N, 2, 24, 24)).round(2), np.arange(N)  # kelvins
    x[:, 1] += 700  # hectopascals
    scaling = scaling_of(table(x=x), rows)
    np.testing.assert_allclose(scaling, ((280, 980), (30, 30)), atol=0.1)
    x[:, 1] = 1013
    assert len(scaling_of(table(x=x), rows).scale) == 1


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("constant", [300, 2**24 - 1, 2**24, 2**25 - 2, 1e8, 1.7e9, 1e15, 1e30])
def test_constant_channels_of_any_size_are_minus_one(constant, sign):
    x = np.stack((noise(8, 8), np.full((N, 8, 8), sign * constant, np.float32)), 1)
    scaling = scaling_of(table(x=x), np.arange(N))
    for dtype in (np.float32, np.float64):
        values = scaled(torch.from_numpy(x.astype(dtype)), scaling, True)
        assert values[:, 0].abs().max() <= 1 and (values[:, 1] == -1).all()
    assert scaling.scale[1] == 1 or abs(constant) >= 2**24


def test_masks_of_booleans_are_read():
    x = noise(8, 8) > 0
    assert scaling_of(table(x=x), np.arange(N)) == ((0.5,), (0.5,))
    np.testing.assert_array_equal(as_tensor(table(x=x).views["x"]), x[:, None])


@pytest.mark.parametrize("shape", [(8, 8), (6, 1)])
def test_scaling_is_of_rows_from_the_first_to_the_last(shape):
    """Where there are many, not all are looked at; values may drift."""
    x = np.linspace(1, 3, 9_000, dtype=np.float32).reshape(-1, 1, 1) * np.ones(shape, np.float32)
    (offset,), (scale,) = scaling_of(make_table("DATA", {"x": x}, Reading()), np.arange(len(x)))
    assert offset == pytest.approx(2, abs=1e-3)
    assert scale == pytest.approx(1 if shape == (8, 8) else 1 / 3**0.5, abs=1e-3)


def test_extreme_values_among_images_are_said():
    rows, x = np.arange(N), noise(3, 16, 16)
    assert not extremes_of(table(x=x), rows, scaling_of(table(x=x), rows))
    x[0, 0, 0, 0] = 1e5
    assert "clip or remove" in extremes_of(table(x=x), rows, scaling_of(table(x=x), rows))
    x[:] = 1
    assert not extremes_of(table(x=x), rows, scaling_of(table(x=x), rows))


@pytest.mark.parametrize("shape", [(8, 8), (30, 2), (50,)], ids=["images", "signals", "one channel"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_extreme_value_among_observations_of_any_kind_is_said(shape, dtype):
    rows, x = np.arange(N), noise(*shape, dtype=dtype)
    read = table(x=x)
    assert not extremes_of(read, rows, scaling_of(read, rows))
    x.reshape(N, -1)[0, -1] = 1e20
    read = table(x=x)
    said = extremes_of(read, rows, scaling_of(read, rows))
    assert "and a few far off: clip or remove" in said and (" of channel 1 " in said) == (shape == (30, 2))
    assert not extremes_of(read, rows[1:], scaling_of(read, rows[1:]))
    steady = table(x=(0.1 + 1e-9 * x.clip(-3, 3)).astype(dtype))
    assert not extremes_of(steady, rows, scaling_of(steady, rows))


@pytest.mark.parametrize("missing", [-9999, 65535])
def test_a_number_that_may_stand_for_missing_values_is_said(missing):
    rows, x = np.arange(N), np.random.default_rng(0).integers(1, 6_000, (N, 2, 24, 24)).astype(np.float32)
    tx = x.copy()
    tx[:5, 1, :12] = missing
    for read in (table(x=x, tx=tx), table(Reading(kind="signals"), x=x[:, 0], tx=tx[:, 1])):
        said = extremes_of(read, rows, scaling_of(read, rows))
        assert "16 % of channel" in said and f"of tx are {missing}, far from all else (" in said
    few, classes = np.where(tx == missing, 1, x), np.where(tx == missing, 90, x % 4)
    for other in (few, classes, np.maximum(x, 5_000)):
        assert not extremes_of(table(x=other, tx=other), rows, scaling_of(table(x=other), rows))


def test_views_in_other_units_are_noticed():
    x, rows = np.random.default_rng(0).uniform(0, 255, (20, 8, 2)), np.arange(18)
    said = other_units(table(x=x, tx=x / 255), rows)
    assert said == "the range of tx is 0.0039 times that of x: give both in the same units"
    assert "range of ttx is 1e+02 times" in other_units(table(x=x, tx=x, ttx=100 * x), rows)
    for tx in (x, 2 * x, np.zeros_like(x)):
        assert not other_units(table(x=x, tx=tx), rows)
    x[18:] *= 1e4
    assert not other_units(table(x=x, tx=x / 3), rows)
    x = np.random.default_rng(0).normal([0, 1000], [300, 5], (20, 8, 2))
    assert other_units(table(x=x, tx=2 * x), rows).startswith("channel 1 of tx lies up to ")
    for offset in (0, 10):
        assert not other_units(table(x=x, tx=x + np.array([0, offset])), rows)
    x[..., 1] = 1000
    rounded = x.astype(np.float32)
    rounded[::2, :, 1] = np.nextafter(np.float32(1000), np.float32(2000))
    for constant in (x, rounded):  # there is nothing to compare with
        assert not other_units(table(x=constant, tx=constant + np.array([0, 1], constant.dtype)), rows)


def test_what_counts_as_constant_depends_on_the_type():
    rows = np.arange(N)
    x = 1.6e9 + 100 * noise(50, dtype=np.float64)
    for values in (x, x.round().astype(np.int64)):
        assert 80 < scaling_of(table(x=values), rows).scale[0] < 120
    assert scaling_of(table(x=x.astype(np.float32)), rows).scale == (1.0,)
    assert scaling_of(table(x=np.full((N, 50), 0.1)), rows).scale == (1.0,)


@pytest.mark.parametrize("shape", [(30, 2), (8, 8)])
def test_values_too_large_to_be_scaled_are_refused(shape):
    huge = table(x=1e300 * noise(*shape, dtype=np.float64).clip(-1, 1))
    with pytest.raises(InputError, match=r"DATA: values of x reach 1e\+300: bring them to smaller units"):
        scaling_of(huge, np.arange(N))


@pytest.mark.parametrize("shape", [(30, 2), (8, 8)])
def test_values_too_small_to_be_scaled_back_are_refused(shape):
    x = noise(*shape, dtype=np.float64)
    with pytest.raises(InputError, match=r"values of x differ by as little as .e-200: bring them to larger units"):
        scaling_of(table(x=1e-200 * x), np.arange(N))
    exact = scaling_of(table(x=2.0**-90 * x), np.arange(N))
    np.testing.assert_array_equal(np.array(exact), 2.0**-90 * np.array(scaling_of(table(x=x), np.arange(N))))


@pytest.fixture(params=["npz", "compressed.npz", "safetensors", "folder"])
def stored(request, tmp_path):
    big = np.random.default_rng(0).standard_normal((N, 3, 128, 128)).astype(np.float32)
    columns = {"x": big, "tx": big + 1, "label": np.arange(N) % 3}
    path = tmp_path / f"pairs.{request.param}"
    match request.param:
        case "npz":
            np.savez(path, **columns)
        case "compressed.npz":
            np.savez_compressed(path, **columns)
        case "safetensors":
            save_file(columns, path)
        case "folder":
            path.mkdir()
            for name, values in columns.items():
                np.save(path / f"{name}.npy", values)
    return path, columns


def test_files_of_every_format_give_the_same(stored):
    path, columns = stored
    reading = Reading()
    reader = find_reader(path, reading)
    assert reader is ArrayReader and reader.names(path, reading) == set(columns)
    read = reader.read(path, reading, 32)
    np.testing.assert_array_equal(read.views["x"], columns["x"])
    np.testing.assert_array_equal(read.views["tx"], columns["tx"])
    assert read.classes == (0, 1, 2)
    mapped = isinstance(read.views["x"].base, np.memmap) or isinstance(read.views["x"], np.memmap)
    assert mapped == (path.name != "pairs.compressed.npz")


class Trap:
    def __reduce__(self):
        return print, ("unpickled",)


def test_nothing_is_unpickled(tmp_path, capsys):
    x = np.empty(N, object)
    x[:] = [Trap() for _ in range(N)]
    np.savez(tmp_path / "objects.npz", x=x)
    folder = tmp_path / "folder"
    folder.mkdir()
    np.save(folder / "x.npy", x)
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(1))
    np.savez(tmp_path / "labels.npz", x=noise(8, 8), label=np.array(["a", "b"] * 8, object))
    for path, message in (
        ("objects.npz", "never unpickled"),
        ("labels.npz", r"Python objects in label, which are never unpickled: .*words as label.astype\(str\)"),
        ("folder", "never unpickled"),
        ("pickle.npz", "cannot be read|objects"),
    ):
        with pytest.raises(InputError, match=message):
            ArrayReader.read(tmp_path / path, Reading(), 32)
    assert "unpickled" not in capsys.readouterr().out


def test_damaged_and_missing_files_are_named(tmp_path):
    file = tmp_path / "pairs.npz"
    np.savez(file, x=X, tx=X)
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"pairs.npz cannot be read"):
        ArrayReader.read(file, Reading(), 32)
    (tmp_path / "text.npy").write_text("1 2 3")
    with pytest.raises(InputError, match=r"text.npy cannot be read \(it is no NumPy file\): save it again"):
        ArrayReader.read(tmp_path / "text.npy", Reading(), 32)
    folder = tmp_path / "folder"
    folder.mkdir()
    np.save(folder / "x.npy", X)
    (folder / "._x.npy").write_bytes(b"of macOS")
    assert ArrayReader.names(folder, Reading()) == {"x"} and len(ArrayReader.read(folder, Reading(), 32)) == N
    (folder / "tx.npy").write_text("1 2 3")
    with pytest.raises(InputError, match=r"tx.npy cannot be read \(it is no NumPy file\): save it again"):
        ArrayReader.read(folder, Reading(), 32)
    with pytest.raises(InputError, match=r"does not exist: give --data, or to a run in its config.yaml, a file \.npz"):
        find_reader(tmp_path / "nowhere", Reading())
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="nothing that can be paired"):
        find_reader(empty, Reading())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e5m2])
def test_types_that_numpy_lacks_are_refused(tmp_path, dtype):
    from safetensors.torch import save_file as save_tensors

    save_tensors({"x": torch.zeros(N, 4, 4).to(dtype)}, tmp_path / "x.safetensors")
    with pytest.raises(InputError, match=r"x\.safetensors: x is of type B?F.*, which is not read: save it as float32"):
        ArrayReader.read(tmp_path / "x.safetensors", Reading(), 32)


def test_tensors_of_every_type_are_read(tmp_path):
    types = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
    columns = {kind: (np.arange(24).reshape(2, 3, 4) % 5).astype(kind) for kind in types}
    columns |= {"number": np.array(3.0), "none": np.empty((0, 4), np.int16)}
    save_file(columns, tmp_path / "x.safetensors", metadata={"of": "a test"})
    read = columns_of(tmp_path / "x.safetensors")
    assert read.keys() == columns.keys()
    for name, values in columns.items():
        assert read[name].dtype == values.dtype and read[name].shape == values.shape
        np.testing.assert_array_equal(read[name], values)


@pytest.mark.parametrize("kept", [0, 5, 60, -1])
def test_damaged_tensors_are_refused(tmp_path, kept):
    path = tmp_path / "x.safetensors"
    save_file({"x": np.zeros((N, 4, 4), np.float32)}, path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError, match=r"x\.safetensors cannot be read \(.*\): save it again"):
        ArrayReader.read(path, Reading(), 32)


def test_a_damaged_array_that_would_be_mapped_is_refused(tmp_path):
    path = tmp_path / "pairs.npz"
    np.savez(path, x=np.zeros((3000, 128), np.float32))
    with open(path, "r+b") as file:
        file.seek(700_000)
        file.write(b"damage")
    with pytest.raises(InputError, match=r"cannot be read .*CRC.*: save it again"):
        columns_of(path)


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_arrays_that_memory_does_not_hold_are_not_called_damaged(tmp_path, monkeypatch, name):
    if name == "x.npy":
        np.save(tmp_path / name, np.zeros((N, 4)))
    else:
        np.savez_compressed(tmp_path / name, x=np.zeros((N, 4)))

    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr(np.lib.format, "read_array", full)
    monkeypatch.setattr(np.lib.format, "open_memmap", full)
    with pytest.raises(MemoryError):
        columns_of(tmp_path / name)["x"][:]
