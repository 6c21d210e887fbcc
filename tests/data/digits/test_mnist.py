"""MNIST's files: round trips of tiny ones, every kind of damage, and downloads without a network."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import pytest
import torch

from niso.data.digits import mnist as module
from niso.data.digits.mnist import FILES, MIRRORS, Digits, check_digits, embedded, mnist, pad
from niso.data.squares import signed
from niso.errors import InputError

TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = FILES


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a test asked for a download")

    monkeypatch.setattr(pooch, "retrieve", refuse)


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def arrays(train: int = 7, test: int = 4) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    sizes = dict(zip(FILES, ((train, 28, 28), (train,), (test, 28, 28), (test,)), strict=True))
    return {name: random.integers(0, 10 if len(s) == 1 else 256, s, np.uint8) for name, s in sizes.items()}


def write(folder: Path, content: dict[str, np.ndarray], compressed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in content.items():
        data = idx(array)
        path = folder / (f"{name}.gz" if compressed else name)
        path.write_bytes(gzip.compress(data) if compressed else data)
    return folder


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("below", ["", "MNIST/raw"])
def test_local_files_round_trip(tmp_path: Path, compressed: bool, below: str) -> None:
    content = arrays()
    write(tmp_path / below, content, compressed)
    loaded = mnist(tmp_path)
    for tensor, array in zip(loaded, content.values(), strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)
    assert [t.dtype for t in loaded] == [torch.uint8, torch.int64] * 2


def test_a_compressed_file_is_known_by_its_content(tmp_path: Path) -> None:
    write(tmp_path, arrays())
    (tmp_path / TRAIN_IMAGES).write_bytes(gzip.compress((tmp_path / TRAIN_IMAGES).read_bytes()))
    assert len(mnist(tmp_path).train_images) == 7


def change(name: str, **arrays_: np.ndarray) -> Any:
    return lambda folder: (folder / name).write_bytes(idx(arrays_["to"]))


def cut(name: str, length: int) -> Any:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:length])


def squeeze_and_cut(folder: Path) -> None:
    (folder / TEST_IMAGES).write_bytes(gzip.compress((folder / TEST_IMAGES).read_bytes())[:-400])


def squeeze_and_damage(folder: Path) -> None:
    data = bytearray(gzip.compress((folder / TEST_IMAGES).read_bytes()))
    data[100:200] = bytes(100)
    (folder / TEST_IMAGES).write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: (folder / TEST_LABELS).unlink(), f"{TEST_LABELS}.* is neither in"),
        (cut(TRAIN_IMAGES, 3000), f"{TRAIN_IMAGES} has 2,984 of the 5,488 bytes .* cut off"),
        (cut(TRAIN_IMAGES, 10), f"{TRAIN_IMAGES} is not an idx file"),
        (cut(TRAIN_LABELS, 0), f"{TRAIN_LABELS} is not an idx file"),
        (squeeze_and_cut, f"{TEST_IMAGES} cannot be read or is damaged"),
        (squeeze_and_damage, f"{TEST_IMAGES} cannot be read or is damaged"),
        (change(TRAIN_IMAGES, to=np.zeros((7, 32, 30), np.uint8)), "images of 32×30 pixels, not 28×28"),
        (change(TRAIN_IMAGES, to=np.zeros(7, np.uint8)), f"{TRAIN_IMAGES} is not an idx file of bytes with 3 axes"),
        (change(TEST_LABELS, to=np.zeros(3, np.uint8)), f"4 images but .*{TEST_LABELS} has 3 labels"),
        (change(TEST_LABELS, to=np.full(4, 61, np.uint8)), f"{TEST_LABELS} has a label 61, not a digit"),
        (lambda folder: (folder / TEST_LABELS).write_text("<html>404</html>"), f"{TEST_LABELS} is not an idx file"),
    ],
)
def test_bad_files_are_named_with_a_remedy(tmp_path: Path, harm: Any, message: str) -> None:
    harm(write(tmp_path, arrays()))
    with pytest.raises(InputError, match=message) as caught:
        mnist(tmp_path)
    assert "\n" not in str(caught.value)
    assert "fetch it again" in str(caught.value) or "put MNIST's four idx files there" in str(caught.value)


def test_empty_files_and_missing_folders(tmp_path: Path) -> None:
    write(tmp_path, arrays(test=0))
    with pytest.raises(InputError, match=f"{TEST_LABELS} is empty"):
        mnist(tmp_path)
    with pytest.raises(InputError, match="nowhere does not exist: give --data-dir"):
        mnist(tmp_path / "nowhere")


def test_mirrors_are_tried_in_turn_with_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, arrays(), compressed=True)
    asked = []

    def retrieve(url: str, known_hash: str, fname: str, path: Path, **kwargs: Any) -> str:
        asked.append(url)
        assert known_hash == FILES[fname.removesuffix(".gz")] and url.endswith(fname)
        if url.startswith(MIRRORS[0]):
            raise ConnectionError("refused\nin two lines")
        if url.startswith(MIRRORS[1]):
            raise ValueError("SHA256 hash does not match")
        return str(tmp_path / fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    assert len(mnist().train_images) == 7
    assert [url.rsplit("/", 1)[0] + "/" for url in asked] == list(MIRRORS) * 4


def test_without_network_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def retrieve(*args: Any, **kwargs: Any) -> str:
        raise ConnectionError("refused\nin two lines")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(InputError, match=r"could not be downloaded .*ConnectionError.*give --data-dir") as caught:
        mnist()
    assert "\n" not in str(caught.value)


def test_a_wrong_or_broken_download_leaves_nothing_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # pooch itself, with a downloader that needs no network
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    attempts = []

    class Downloader:
        def __init__(self, **kwargs: Any) -> None: ...

        def __call__(self, url: str, output_file: str, *args: Any) -> None:
            attempts.append(url)
            Path(output_file).write_bytes(b"half a file")
            if len(attempts) == 1:
                raise ConnectionError("broken off")

    monkeypatch.setattr(pooch, "HTTPDownloader", Downloader)
    with pytest.raises(InputError, match=r"ConnectionError.*ValueError.*ValueError"):
        mnist()
    assert len(attempts) == len(MIRRORS)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_a_cached_copy_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    monkeypatch.delattr(pooch.HTTPDownloader, "__call__")
    folder = write(tmp_path / "niso" / "mnist", arrays(), compressed=True)
    hashes = {name: f"sha256:{pooch.file_hash(folder / f'{name}.gz')}" for name in FILES}
    monkeypatch.setattr(module, "FILES", hashes)
    assert len(mnist().test_images) == 4


def test_embedded_digits() -> None:
    loaded = embedded()
    assert isinstance(loaded, Digits)
    assert loaded.train_images.shape == (1297, 12, 12) and loaded.test_images.shape == (500, 12, 12)
    assert loaded.train_images.dtype == torch.uint8 and loaded.train_images.max() == 255
    assert loaded.train_labels.bincount().min() > 120 and loaded.test_labels.bincount().min() > 45
    assert all(torch.equal(a, b) for a, b in zip(loaded, embedded(), strict=True))


def test_padding_and_range() -> None:
    images = torch.full((2, 28, 28), 255, dtype=torch.uint8)
    padded = pad(images)
    assert padded.shape == (2, 40, 40)
    assert torch.equal(padded[:, 6:-6, 6:-6], images) and padded.sum() == images.sum()
    values = signed(padded)
    assert values.dtype == torch.float32 and set(values.unique().tolist()) == {-1.0, 1.0}


WHITE = torch.full((6, 8, 8), 255, dtype=torch.uint8)
GOOD = Digits(WHITE, torch.arange(6) % 3, WHITE[:2], torch.ones(2).int())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"train_images": WHITE.float()},
            r"train_images must be uint8 tensors .*, not torch.float32 of \(6,",
        ),
        (
            {"train_images": WHITE.numpy()},
            r"train_images must be uint8 tensors .*, not ndarray of \(6, 8, 8\)",
        ),
        ({"test_images": torch.zeros(2, 3, 8, 8).byte()}, r"test_images must be uint8 tensors .* of \(2, 3, 8, 8\)"),
        ({"test_images": torch.zeros(2, 9, 9).byte()}, "test_images must be square, and all of one size, not 9×9"),
        ({"train_images": torch.zeros(6, 8, 9).byte()}, "train_images must be square, and all of one size, not 8×9"),
        ({"train_labels": torch.arange(5)}, "train_labels must be 6 whole numbers"),
        ({"test_labels": torch.ones(2)}, "test_labels must be 2 whole numbers"),
        ({"train_labels": torch.tensor([0, 1, 2, 3, 4, 10**10])}, "train_labels reach 10000000000: number the classes"),
        ({"train_images": WHITE // 16}, "train_images reach 15, and white is 255: scale them"),
        (
            {"train_labels": torch.full((6,), 3), "test_labels": torch.tensor([3, 3])},
            "all train_labels are 3: give two classes or more",
        ),
        ({"test_labels": torch.tensor([0, 7])}, "no training image is of the test images' class 7"),
    ],
)
def test_data_sets_that_are_not_as_they_should_be_are_named(changes, message):
    good = check_digits("mine", GOOD)
    assert all(torch.equal(*parts) for parts in zip(good, GOOD, strict=True))
    assert good.train_labels.dtype == good.test_labels.dtype == torch.int64  # which losses take
    with pytest.raises(InputError, match=f"digits mine: {message}"):
        check_digits("mine", GOOD._replace(**changes))


@pytest.mark.parametrize(("data", "kind"), [(tuple(GOOD), "tuple"), (None, "NoneType")])
def test_a_data_set_is_digits(data, kind):
    with pytest.raises(
        InputError, match=rf"digits mine: .* must return a niso\.data\.digits\.mnist\.Digits, not {kind}"
    ):
        check_digits("mine", data)
