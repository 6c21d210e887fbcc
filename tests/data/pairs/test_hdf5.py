"""HDF5 files: what is read of them, from where, and what is refused."""

import sys

import h5py
import numpy as np
import pytest

from niso.data.pairs.arrays import ArrayReader, columns_of
from niso.data.pairs.reading import Reading
from niso.data.pairs.table import make_table
from niso.errors import InputError

N = 20
X = np.random.default_rng(0).standard_normal((N, 16, 2))


def write(path, block=0, **members):
    with h5py.File(path, "w", userblock_size=block) as file:
        for name, values in members.items():
            file[name] = values
    return path


@pytest.mark.parametrize("ending", [".h5", ".hdf5", ".H5"])
def test_a_table_is_read(tmp_path, ending):
    path = write(tmp_path / f"pairs{ending}", x=X, tx=X + 1, label=[f"sort {i % 2}" for i in range(N)])
    assert ArrayReader.fits(path, Reading()) and ArrayReader.names(path, Reading()) == {"x", "tx", "label"}
    table = ArrayReader.read(path, Reading(), 32)
    np.testing.assert_array_equal(table.views["tx"], X + 1)
    assert table.kind == "signals" and table.classes == ("sort 0", "sort 1")


@pytest.mark.parametrize("kind", ["f2", "<f4", ">f4", "f8", "i1", "u2", ">i4", "u8", "?"])
@pytest.mark.parametrize("block", [0, 512])
def test_data_sets_in_one_piece_are_mapped(tmp_path, kind, block):
    values = (np.arange(N * 6).reshape(N, 6) % 5).astype(kind)
    read = columns_of(write(tmp_path / "x.h5", block, x=values, other=values[:3]))
    np.testing.assert_array_equal(read["x"], values)
    np.testing.assert_array_equal(read["other"], values[:3])
    assert isinstance(read["x"], np.memmap) or kind == "?"  # which HDF5 stores as an enumeration


@pytest.mark.parametrize(("first", "second"), [(">f4", "<f4"), ("<i2", ">i2")])
def test_views_may_have_one_type_in_two_orders_of_bytes(tmp_path, first, second):
    values = (10 * X).astype(first)
    path = write(tmp_path / "x.h5", x=values, tx=values.astype(second))
    views = ArrayReader.read(path, Reading(), 32).views
    assert views["x"].dtype == views["tx"].dtype and views["x"].dtype.isnative
    np.testing.assert_array_equal(views["x"], values)
    np.testing.assert_array_equal(views["tx"], values)
    with pytest.raises(InputError, match="x is of type float64 and tx of int16: give both one type"):
        ArrayReader.read(write(tmp_path / "y.h5", x=X.astype(">f8"), tx=values.astype(">i2")), Reading(), 32)


def test_data_sets_are_arrays_of_a_program(tmp_path):
    path = write(tmp_path / "pairs.h5", x=X, tx=X[:, ::-1], label=[f"sort {i % 2}" for i in range(N)])
    with h5py.File(path) as file:
        table = make_table("the data", dict(file), Reading())  # labels come as bytes
    assert table.classes == ("sort 0", "sort 1") and table.kind == "signals"


def test_other_data_sets_are_read_whole(tmp_path):
    path = tmp_path / "x.h5"
    np.savez(tmp_path / "elsewhere.npz", X)
    with h5py.File(path, "w") as file:
        file.create_dataset("compressed", data=X, compression="gzip")
        file.create_dataset("chunked", data=X, chunks=(5, 16, 2))
        file.create_dataset("compact", data=3.0)
        file.create_dataset("unwritten", shape=(N, 2), dtype="f4", fillvalue=7.0)
        file.create_dataset("none", shape=(0, 4), dtype="f4")
        layout = h5py.VirtualLayout(X.shape, X.dtype)
        layout[:] = h5py.VirtualSource(file["chunked"])
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("outside", data=X, external=[(str(tmp_path / "raw"), 0, h5py.h5f.UNLIMITED)])
        file["linked"] = h5py.SoftLink("/chunked")
        file["bytes"] = np.array([b"one", b"two"])
        half = h5py.h5t.IEEE_F32LE.copy()  # bfloat16, which NumPy lacks
        half.set_fields(15, 7, 8, 0, 7)
        half.set_size(2)
        whole = np.arange(12, dtype=np.float32).reshape(3, 4)
        h5py.h5d.create(file.id, b"half", half, h5py.h5s.create_simple((3, 4))).write(h5py.h5s.ALL, h5py.h5s.ALL, whole)
    read = columns_of(path)
    for name in ("compressed", "chunked", "virtual", "outside", "linked"):
        np.testing.assert_array_equal(read[name], X)
    np.testing.assert_array_equal(read["half"], whole)
    assert read["compact"] == 3 and (read["unwritten"] == 7).all() and read["none"].shape == (0, 4)
    assert read["bytes"].tolist() == ["one", "two"]


def test_what_is_no_table_is_refused(tmp_path):
    def refused(path):
        with pytest.raises(InputError) as error:
            ArrayReader.read(path, Reading(), 32)
        return str(error.value)

    assert "train is no data set: put x, tx" in refused(write(tmp_path / "groups.h5", **{"train/x": X}))
    assert "holds 'y', which is not known" in refused(write(tmp_path / "other.h5", x=X, y=X))
    with h5py.File(tmp_path / "packed.h5", "w") as file:
        file["x"] = X
        file["x"].attrs["scale_factor"] = 0.01
    assert "x has the attribute scale_factor, which is not heeded" in refused(tmp_path / "packed.h5")
    with h5py.File(tmp_path / "lost.h5", "w") as file:
        file["x"] = h5py.ExternalLink("nowhere.h5", "x")
    assert "lost.h5 cannot be read" in refused(tmp_path / "lost.h5")
    with h5py.File(tmp_path / "ragged.h5", "w") as file:
        rows = file.create_dataset("x", (N,), h5py.vlen_dtype(np.float32))
        rows[0] = [1.0, 2.0]
    assert "holds Python objects" in refused(tmp_path / "ragged.h5")
    assert "is of type" in refused(write(tmp_path / "records.h5", x=np.zeros((N, 4), [("a", "f4"), ("b", "i4")])))


@pytest.mark.parametrize("kept", [0, 5, 600, -100])
def test_damaged_files_are_refused(tmp_path, kept):
    path = write(tmp_path / "x.h5", x=X)
    path.write_bytes(path.read_bytes()[:kept])
    for read in (columns_of, lambda path: ArrayReader.names(path, Reading())):
        with pytest.raises(InputError, match=r"x\.h5 cannot be read \(.*\): save it again"):
            read(path)


def test_without_h5py_the_remedy_is_to_install_it(tmp_path, monkeypatch):
    path = write(tmp_path / "x.h5", x=X)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match="needs h5py: pip install h5py"):
        ArrayReader.names(path, Reading())


def test_it_trains_a_model_that_reads_it(niso, tmp_path):
    path, run = write(tmp_path / "pairs.h5", x=X, tx=X[:, ::-1]), tmp_path / "run"
    words = ["--steps", 2, "--batch-size", 4, "--rank", 4, "--evaluation-pairs", 4, "--out", run]
    assert niso("run", "pairs", "--data", path, *words).status == 0
    assert niso("features", run, path, "--out", tmp_path / "features.npz").status == 0
    with np.load(tmp_path / "features.npz") as features:
        assert len(features["coefficients"]) == N


def test_links_to_other_files_are_followed(tmp_path):
    write(tmp_path / "x.h5", x=X)
    path = write(tmp_path / "all.h5", tx=X + 1)
    with h5py.File(path, "a") as file:
        file["x"] = h5py.ExternalLink("x.h5", "/x")
    read = columns_of(path)
    np.testing.assert_array_equal(read["x"], X)
    np.testing.assert_array_equal(read["tx"], X + 1)
