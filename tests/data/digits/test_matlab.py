"""MATLAB's version 5 files: as SciPy reads them, and damaged ones refused, never a crash."""

import struct
import zlib

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from niso.data.digits.matlab import read_arrays

TYPES = ("u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_are_those_that_scipy_reads(tmp_path, dtype, compress):
    path, chance = tmp_path / "a.mat", np.random.default_rng(0)
    arrays = {"one": chance.integers(0, 100, (3, 4, 5)).astype(dtype), "b": np.array([[7]], dtype), "other": np.eye(2)}
    savemat(path, {**arrays, "text": "words"}, do_compression=compress)
    found, expected = read_arrays(path, ("one", "b", "absent")), loadmat(path)
    assert found.keys() == {"one", "b"}
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name], strict=True)


def test_what_is_not_an_array_of_real_numbers_is_refused(tmp_path):
    path = tmp_path / "a.mat"
    for value in ("words", {"field": 1}, np.array([[1j]]), np.array([[object()]], object)[:, :0]):
        savemat(path, {"a": value})
        with pytest.raises(ValueError, match="a is not an array of real numbers"):
            read_arrays(path, ("a",))


@pytest.mark.parametrize("compress", [False, True])
def test_every_truncation_and_every_extreme_number_gives_arrays_or_an_error(tmp_path, compress):
    path = tmp_path / "a.mat"
    savemat(path, {"a": np.arange(6.0).reshape(2, 3)}, do_compression=compress)
    content = path.read_bytes()
    damaged = [content[:end] for end in range(len(content))]
    for place in range(128, len(content) - 4):
        damaged += [content[:place] + struct.pack("<I", n) + content[place + 4 :] for n in (0, 1, 99, 2**31, 2**32 - 1)]
    outcomes = set()
    for other in damaged:
        path.write_bytes(other)
        try:
            outcomes.add(read_arrays(path, ("a",)).get("a", np.zeros(0)).size)
        except (ValueError, zlib.error):
            outcomes.add(None)
    assert outcomes <= {0, 6, 1, 2, 3, None} and {6, None} <= outcomes
