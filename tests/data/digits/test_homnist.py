"""homNIST: the generated set's determinism, other transformations in it, and the published file's formats."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import savemat
from scipy.linalg import logm

from niso.data.digits import homnist
from niso.data.digits.homnist import GeneratedTestSet, PerturbedBatch, PerturbedDigits, PublishedTestSet
from niso.data.digits.mnist import pad
from niso.data.squares import signed
from niso.errors import InputError
from niso.geometry import homographies as homography
from niso.geometry.homographies import Homographies
from niso.geometry.mobius import MobiusTransformations


def digits(count: int = 5, side: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, side, side), generator=random, dtype=torch.uint8)
    return pad(images, 4), torch.randint(10, (count,), generator=random)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few transformations are drawn together, and several blocks are needed."""
    monkeypatch.setattr(homnist, "_BLOCK", 3)


def whole(test_set: PerturbedDigits, size: int = 7) -> PerturbedBatch:
    batches = list(test_set.batches(size))
    assert [len(b.labels) for b in batches[:-1]] == [size] * (len(batches) - 1)
    assert sum(len(b.labels) for b in batches) == len(test_set)
    return PerturbedBatch(*(torch.cat(parts) for parts in zip(*batches, strict=True)))


# --- the generated test set ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_blocks")
def test_every_digit_has_32_consecutive_homographies() -> None:
    images, labels = digits()
    full = whole(GeneratedTestSet(images, labels))
    assert full.images.shape == (160, 1, 16, 16) and full.images.dtype == torch.float32
    assert full.images.min() == -1 and full.images.max() <= 1
    assert torch.equal(full.labels, labels.repeat_interleave(32))
    matrices = full.transformations.float()
    expected = Homographies().act(signed(images)[:, None].repeat_interleave(32, 0), matrices)
    torch.testing.assert_close(full.images, expected)
    assert len(full.transformations.flatten(1).unique(dim=0)) == 160
    torch.testing.assert_close(torch.linalg.det(matrices), torch.ones(160))


@pytest.mark.usefixtures("small_blocks")
def test_the_warp_of_the_paper_in_0_to_1_is_the_same_set() -> None:
    images, labels = digits()
    full = whole(GeneratedTestSet(images, labels))
    paper = Homographies(background=0.0).act(
        images.repeat_interleave(32, 0)[:, None] / 255, full.transformations.float()
    )
    torch.testing.assert_close(full.images, 2 * paper - 1, atol=2e-6, rtol=0)


@pytest.mark.usefixtures("small_blocks")
def test_batch_size_number_of_digits_and_subset_change_nothing() -> None:
    images, labels = digits(5)
    full = whole(GeneratedTestSet(images, labels))
    torch.manual_seed(1)  # the global generator plays no part
    for size in (1, 32, 1000):
        again = whole(GeneratedTestSet(images, labels), size)
        assert torch.equal(again.transformations, full.transformations)
        torch.testing.assert_close(again.images, full.images)
    fewer = whole(GeneratedTestSet(images[:4], labels[:4]))
    assert torch.equal(fewer.transformations, full.transformations[:128])
    subset = GeneratedTestSet(images, labels, copies=1)
    assert len(subset) == 5
    assert torch.equal(whole(subset).transformations, full.transformations[::32])
    other = whole(GeneratedTestSet(images, labels, seed=1))
    assert not torch.isclose(other.transformations, full.transformations).all(dim=(-2, -1)).any()


def test_the_documented_seed_gives_the_documented_set() -> None:
    """Guards results that were published with this set: a change of these numbers is another test set."""
    matrices = GeneratedTestSet(*digits(1), copies=2).transformations(0)
    x = homography.coefficients_of(torch.stack([torch.from_numpy(logm(matrix.numpy())) for matrix in matrices]))
    expected = [[-0.048269732, -0.436496748, 0.091324621], [0.046533248, -0.047099779, -0.160587179]]
    torch.testing.assert_close(x[:, :3], torch.tensor(expected, dtype=torch.float64), atol=1e-8, rtol=0)


@pytest.mark.usefixtures("small_blocks")
def test_other_transformations_take_the_place_of_homographies() -> None:
    images, labels = digits()
    narrow = whole(GeneratedTestSet(images, labels, copies=2))
    wide = whole(GeneratedTestSet(images, labels, copies=2, action=homography.Homographies()))
    assert (
        homography.Homographies().strength(wide.transformations).mean()
        > homography.Homographies().strength(narrow.transformations).mean()
    )
    turned = whole(GeneratedTestSet(images, labels, copies=2, action=MobiusTransformations()))
    assert turned.transformations.is_complex() and turned.images.shape == narrow.images.shape


@pytest.mark.parametrize("copies", [0, 33])
def test_impossible_copies(copies: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"between 1 and 32, got {copies}"):
        GeneratedTestSet(*digits(), copies=copies)
    with pytest.raises(ValueError, match=f"between 1 and 32, got {copies}"):
        PublishedTestSet(tmp_path / "absent.mat", copies)


def test_empty_batches_are_refused(tmp_path: Path) -> None:
    for test_set in (GeneratedTestSet(*digits()), PublishedTestSet(write_5(tmp_path / "homnist.mat", published()))):
        with pytest.raises(ValueError, match="at least 1 example, got size 0"):
            next(test_set.batches(0))


def test_images_without_labels() -> None:
    images, labels = digits()
    with pytest.raises(ValueError, match="5 images but 4 labels"):
        GeneratedTestSet(images, labels[:4])


# --- the published file -------------------------------------------------------------------------------------------


def published(dtype: Any = np.float32) -> dict[str, np.ndarray]:
    """64 images of 2 digits, in [0, 1] or uint8."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (64, 6, 6), np.uint8)
    return {
        "img_data": pixels if dtype == np.uint8 else (pixels / 255).astype(dtype),
        "labels": np.repeat([[3], [8]], 32, axis=0).astype(np.float64),
        "hom_matrices": random.normal(size=(64, 3, 3)),
    }


def write_5(path: Path, content: dict[str, np.ndarray], compress: bool = True) -> Path:
    savemat(path, content, do_compression=compress)
    return path


def write_73(path: Path, content: dict[str, np.ndarray], matlab: bool = True) -> Path:
    """As MATLAB writes it: HDF5 with axes reversed, behind 512 bytes of its own; or as h5py does."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512 if matlab else 0) as file:
        for key, array in content.items():
            file[key] = array.T if matlab else array
    if matlab:
        with path.open("r+b") as raw:
            raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    return path


WRITERS = {
    "5": write_5,
    "5, uncompressed": lambda path, content: write_5(path, content, compress=False),
    "7.3": write_73,
    "hdf5": lambda path, content: write_73(path, content, matlab=False),
}
ANY_VERSION = pytest.mark.parametrize("version", WRITERS)


@ANY_VERSION
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_published_files_round_trip(tmp_path: Path, version: str, dtype: Any) -> None:
    content = published(dtype)
    test_set = PublishedTestSet(WRITERS[version](tmp_path / "homnist.mat", content))
    assert len(test_set) == 64
    loaded = whole(test_set)
    pixels = content["img_data"] / (255 if dtype == np.uint8 else 1)
    torch.testing.assert_close(loaded.images[:, 0], torch.from_numpy(pixels * 2 - 1).float())
    assert loaded.labels.dtype == torch.int64 and loaded.labels.tolist() == [3] * 32 + [8] * 32
    torch.testing.assert_close(loaded.transformations, torch.from_numpy(content["hom_matrices"]).float())


@ANY_VERSION
@pytest.mark.parametrize("shape", [(64, 1, 6, 6), (64, 6, 6, 1), (64, 36)])
def test_other_layouts_and_the_subset(tmp_path: Path, version: str, shape: tuple[int, ...]) -> None:
    content = published()
    expected = torch.from_numpy(content["img_data"][[0, 1, 32, 33]] * 2 - 1)
    content["img_data"] = content["img_data"].reshape(shape)
    test_set = PublishedTestSet(WRITERS[version](tmp_path / "homnist.mat", content), copies=2)
    loaded = whole(test_set, size=3)
    torch.testing.assert_close(loaded.images[:, 0], expected)
    assert loaded.labels.tolist() == [3, 3, 8, 8]


@ANY_VERSION
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, "lacks labels"),
        ({"labels": np.zeros((60, 1))}, "has 60 labels, not 32 for each digit"),
        ({"labels": np.zeros((96, 1))}, r"has img_data of shape \(.*\), which is not 96 square matrices"),
        ({"labels": np.arange(64.0)[:, None]}, "labels that are not digits in runs of 32"),
        ({"labels": np.full((64, 1), 0.5)}, "labels that are not digits in runs of 32"),
        ({"img_data": np.zeros((64, 6, 5))}, "img_data of shape .* not 64 square"),
        ({"img_data": np.array(1.0)}, r"img_data (without a shape|of shape \(1, 1\), which is not 64 square)"),
        ({"img_data": np.zeros((64, 37))}, "img_data of shape .* not 64 square"),
        ({"hom_matrices": np.zeros((64, 4, 4))}, "hom_matrices of shape .* not 64 square"),
        ({"img_data": np.full((64, 6, 6), 255.0)}, "img_data between 255 and 255, neither uint8 nor in"),
        ({"img_data": np.full((64, 6, 6), np.nan)}, "img_data between nan and nan"),
    ],
)
def test_wrong_content_is_named(tmp_path: Path, version: str, change: dict[str, Any], message: str) -> None:
    content = {key: value for key, value in (published() | change).items() if value is not None}
    path = WRITERS[version](tmp_path / "homnist.mat", content)
    with pytest.raises(InputError, match=rf"homnist.mat.*{message}.*: fetch the homNIST test set again"):
        whole(PublishedTestSet(path))


@ANY_VERSION
@pytest.mark.parametrize("part", [0, 100, 600, 0.5, 0.95])
def test_a_file_cut_off_is_named(tmp_path: Path, version: str, part: float) -> None:
    path = WRITERS[version](tmp_path / "homnist.mat", published())
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data)) if part < 1 else int(part)])
    with pytest.raises(InputError, match=r"homnist.mat .*: fetch the homNIST test set again") as caught:
        whole(PublishedTestSet(path))
    assert "\n" not in str(caught.value)


def test_damage_inside_an_hdf5_file_is_named_when_it_is_reached(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "homnist.mat"
    with h5py.File(path, "w") as file:
        for key, array in published().items():
            data = file.create_dataset(key, data=array, chunks=(16, *array.shape[1:]), fletcher32=True)
            if key == "img_data":
                damaged = data.id.get_chunk_info(2).byte_offset
    content = bytearray(path.read_bytes())
    content[damaged + 10] ^= 255
    path.write_bytes(content)
    batches = PublishedTestSet(path).batches(16)
    assert len(next(batches).labels) == 16
    with pytest.raises(InputError, match=r"homnist.mat is damaged .*: fetch the homNIST test set again"):
        list(batches)


def test_a_missing_file_or_another_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file .*absent.mat"):
        PublishedTestSet(tmp_path / "absent.mat")
    (tmp_path / "other.mat").write_text("no MATLAB file")
    with pytest.raises(InputError, match=r"is not a MATLAB file of version 5 or 7\.3"):
        PublishedTestSet(tmp_path / "other.mat")


def test_without_h5py_the_remedy_is_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "homnist.mat"
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match="needs h5py: pip install h5py"):
        PublishedTestSet(path)


def test_a_file_that_memory_does_not_hold_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "homnist.mat"
    savemat(path, published())

    def full(*_: object) -> None:
        raise MemoryError

    test_set = PublishedTestSet(path)
    monkeypatch.setattr(test_set, "_images", full)
    with pytest.raises(MemoryError):
        next(test_set.batches(4))
    monkeypatch.setattr(homnist, "read_arrays", full)
    with pytest.raises(MemoryError):
        PublishedTestSet(path)
