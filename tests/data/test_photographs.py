import numpy as np
import pytest
import torch
from PIL import Image

from niso.data.photographs import crops, photographs
from niso.errors import InputError


def picture(size=(20, 16), seed=0, mode="RGB"):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (*size[::-1], 3), np.uint8)).convert(mode)


@pytest.fixture
def folder(tmp_path):
    for number in range(7):
        picture(seed=number).save(tmp_path / f"{number}.png")
    return tmp_path


def test_shipped_photographs_are_split_by_scene():
    train, test = photographs()
    assert len(train) >= 8 and len(test) >= 3
    assert {image.mode for image in train + test} == {"RGB"}
    paths = [image.info["path"] for image in train + test]
    assert len(set(paths)) == len(paths)


def test_every_fifth_image_of_a_folder_is_held_out(folder):
    train, test = photographs(folder)
    assert [image.info["path"][-5:] for image in test] == ["4.png"]
    assert [image.info["path"][-5:] for image in train] == ["0.png", "1.png", "2.png", "3.png", "5.png", "6.png"]


def test_a_copy_of_an_image_is_taken_once(folder):
    """Also where its file is another one."""
    names = [[image.info["path"] for image in part] for part in photographs(folder)]
    Image.open(folder / "0.png").save(folder / "35.bmp")  # which would be held out
    with pytest.warns(UserWarning, match=r"^1 image is a copy and left out: .*35\.bmp is as .*0\.png$"):
        assert [[image.info["path"] for image in part] for part in photographs(folder)] == names
    for number in range(1, 7):
        (folder / f"{number}.png").unlink()
    with pytest.warns(UserWarning), pytest.raises(InputError, match="all images are the same: give two or more that"):
        photographs(folder)


def test_two_images_are_enough_and_folders_are_searched(tmp_path):
    (tmp_path / "in" / "odd.png").mkdir(parents=True)  # a folder that is named like an image
    (tmp_path / "notes.txt").write_text("not an image, nor named like one")
    picture().save(tmp_path / "in" / "A.JPG")
    picture(mode="L").save(tmp_path / "in" / "b.png")
    train, test = photographs(tmp_path)
    assert len(train) == len(test) == 1 and test[0].mode == "RGB"


def test_images_that_do_not_fit_into_memory_are_refused_unread(folder, monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 5}[name])
    assert len(photographs(folder)[0]) == 6  # 7 of 20×16 pixels
    (folder / "broken.png").write_bytes(b"")
    picture((40, 16)).save(folder / "more.png")
    with pytest.raises(InputError, match=r"the 9 images of .* take 0\.0 GB of memory, .*: give fewer of them"):
        photographs(folder)
    monkeypatch.delattr("os.sysconf")  # as on Windows
    (folder / "broken.png").unlink()
    assert len(photographs(folder)[0]) == 7


@pytest.mark.parametrize(("count", "words"), [(0, "holds 0 images"), (1, "holds 1 images")])
def test_too_few_images(tmp_path, count, words):
    for number in range(count):
        picture().save(tmp_path / f"{number}.png")
    with pytest.raises(InputError, match=words):
        photographs(tmp_path)


def test_no_such_folder(tmp_path):
    with pytest.raises(InputError, match=r"nowhere does not exist: give a folder of images"):
        photographs(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file is not a folder"):
        photographs(tmp_path / "file")


def damage(kind: str, content: bytes) -> bytes:
    return {
        "zero bytes": b"",
        "text": b"this is text\n",
        "truncated": content[: len(content) // 2],
        "header only": content[:40],
        "flipped bytes": content[:60] + bytes(255 - byte for byte in content[60:-20]) + content[-20:],
    }[kind]


@pytest.mark.parametrize("kind", ["zero bytes", "text", "truncated", "header only", "flipped bytes"])
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif", ".webp", ".bmp"])
def test_a_broken_image_is_named(folder, kind, suffix):
    path = folder / f"broken{suffix}"
    picture().save(path)
    path.write_bytes(damage(kind, path.read_bytes()))
    try:
        photographs(folder)
    except InputError as error:
        assert f"image {path} cannot be read" in str(error) and "repair or remove it" in str(error)
    else:  # some formats carry no checksum
        assert kind == "flipped bytes"


def test_an_image_too_large_to_trust(folder, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(InputError, match="megapixels, of which at most 0 are read: shrink it"):
        photographs(folder)


def test_16_bits_are_scaled_not_clipped(folder):
    grey = np.linspace(0, 65535, 20 * 16).reshape(16, 20).astype(np.uint16)
    Image.fromarray(grey).save(folder / "4.png")
    (image,) = photographs(folder)[1]
    np.testing.assert_array_equal(np.asarray(image)[..., 0], grey >> 8)


@pytest.mark.parametrize(("dtype", "most"), [(np.uint16, 4095), (np.int32, 255), (np.int32, 70_000)])
def test_other_ranges_than_8_and_16_bits_are_refused(folder, dtype, most):
    Image.fromarray(np.linspace(0, most, 20 * 16).reshape(16, 20).astype(dtype)).save(folder / "4.tif")
    with pytest.raises(
        InputError, match=rf"4.tif cannot be used: its grey values are 0 … {most}, not of full 16 bits: save it in"
    ):
        photographs(folder)


def test_floating_point_images_are_refused(folder):
    Image.fromarray(np.zeros((16, 20), np.float32)).save(folder / "f.tif")
    with pytest.raises(InputError, match="floating-point"):
        photographs(folder)


def test_crops_are_deterministic_and_in_range():
    images = [picture(seed=1), picture((9, 30), seed=2)]
    pool = crops(images, 30, 4, seed=5)
    assert pool.shape == (30, 16, 3) and pool.dtype == torch.float32
    assert pool.min() >= -1 and pool.max() <= 1 and pool.std() > 0.1
    assert torch.equal(pool, crops(images, 30, 4, seed=5))
    assert not torch.equal(pool, crops(images, 30, 4, seed=6))


def test_crops_average_and_keep_row_major_order():
    columns = np.zeros((8, 8, 3), np.uint8)
    columns[:, 4:] = 255
    pool = crops([Image.fromarray(columns)], 2, 4, seed=0)  # the only crop of 2 × size is the whole image
    row = torch.tensor([-1.0, -1.0, 1.0, 1.0])
    torch.testing.assert_close(pool[0, :, 0].reshape(4, 4), row.expand(4, 4))


def test_crops_reach_every_scale_and_border():
    ramp = np.tile(np.arange(256, dtype=np.uint8), (256, 1))
    pool = crops([Image.fromarray(ramp).convert("RGB")], 500, 4, seed=0)[..., 0].reshape(-1, 4, 4)
    widths = (pool[:, 0, -1] - pool[:, 0, 0]) * 127.5 * 4 / 3  # side of each crop in pixels
    assert widths.min() < 10 and widths.max() > 220
    small = (widths < 32).float().mean()  # log-uniform between 8 and 256: two fifths
    assert 0.3 < small < 0.5


def test_a_small_image_is_named(folder):
    picture((5, 3)).save(folder / "small.png")
    with pytest.raises(InputError, match=r"small\.png \(5×3 pixels\) is too small for 4×4"):
        crops(photographs(folder)[0], 3, 4, seed=0)
    assert crops([picture((4, 4))], 3, 4, seed=0).shape == (3, 16, 3)
