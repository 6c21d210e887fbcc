"""Near copies of what is trained on are told among held-out observations; what differs by degrees is none."""

import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter

from niso.data.digits.mnist import embedded
from niso.data.pairs.near_copies import near_copies
from niso.data.pairs.pictures import PictureReader
from niso.data.pairs.reading import Reading
from niso.data.photographs import shipped
from niso.data.pictures import open_picture

HELD_OUT = 0.1


def smooth(count, *shape, seed=0):
    values = gaussian_filter(np.random.default_rng(seed).standard_normal((count, *shape)), (0, *[2 for _ in shape]))
    return values / values.std()


def found(x, seed=0):
    """Near copies among a tenth of observations without an axis of channels."""
    rows = torch.from_numpy(np.random.default_rng(seed).permutation(len(x)))
    values, held_out = torch.from_numpy(np.asarray(x, np.float32))[:, None], round(HELD_OUT * len(x))
    return near_copies(lambda rows: values[rows], rows[held_out:], rows[:held_out])


@pytest.mark.parametrize("shape", [(16, 16), (64,), (8, 8, 8)], ids=["images", "signals", "volumes"])
@pytest.mark.parametrize("noise", [1e-6, 1e-4, 1e-2])
def test_copies_with_noise_are_told(shape, noise):
    x = smooth(40, *shape).repeat(10, 0)
    x += noise * np.random.default_rng(1).standard_normal(x.shape)
    assert found(x) == (40, 40)


def test_copies_among_others_are_counted():
    x = np.concatenate([smooth(40, 16, 16).repeat(5, 0), smooth(200, 16, 16, seed=1)])
    x += 1e-4 * np.random.default_rng(2).standard_normal(x.shape)
    copied, compared = found(x)
    assert 10 < copied < 30 and compared == 40


def squares(count):
    """Pieces of photographs: each in levels of grey, 64×64."""
    random, pieces = np.random.default_rng(0), []
    for file in shipped()[:8]:
        picture = open_picture(file).convert("L")
        for _ in range(count // 8):
            left, top = (int(random.integers(size - 128)) for size in picture.size)
            pieces.append(picture.crop((left, top, left + 128, top + 128)))
    return pieces


def pressed(picture, quality):
    content = io.BytesIO()
    picture.save(content, "jpeg", quality=quality)
    return Image.open(io.BytesIO(content.getvalue()))


def test_compressed_copies_are_told_and_pieces_of_pictures_are_none():
    pieces = squares(80)
    copies = [np.array(pressed(piece, quality).resize((32, 32))) for piece in pieces for quality in (50, 75, 90)]
    copied, compared = found(copies)
    assert copied > 0.5 * compared
    assert found([np.array(piece.resize((32, 32))) for piece in pieces])[0] == 0


def tones(count):
    random, t = np.random.default_rng(0), np.arange(64)
    return np.cos(2 * np.pi * random.integers(4, 16, (count, 1)) * t / 64 + random.uniform(0, 2 * np.pi, (count, 1)))


def blank(count):
    x = smooth(count, 16, 16)
    x[::2] = 1e-3 * np.random.default_rng(0).standard_normal((len(x[::2]), 16, 16))
    return x


def rolled(count):
    return np.stack([np.roll(signal, place) for place, signal in enumerate(smooth(20, 64).repeat(count // 20, 0))])


HEALTHY = {
    "noise": lambda: np.random.default_rng(0).standard_normal((400, 64)),
    "images": lambda: smooth(400, 16, 16),
    "volumes": lambda: smooth(200, 8, 8, 8),
    "walks": lambda: np.random.default_rng(0).standard_normal((400, 64)).cumsum(1),
    "tones": lambda: tones(1000),
    "moving": lambda: np.sin(np.linspace(0, 6, 64) * (1 + np.arange(400)[:, None] / 400)),
    "turning": lambda: np.cos(np.linspace(0, 6, 64) + np.random.default_rng(0).uniform(0, 6.3, (400, 1))),
    "rolled": lambda: rolled(400),
    "blank": lambda: blank(400),
    "levels": lambda: np.random.default_rng(0).standard_normal((400, 1)) + 1e-3 * smooth(400, 64),
    "beats": lambda: 50 * np.sin(np.linspace(0, 9, 64)) + smooth(400, 64),
    "textures": lambda: smooth(20, 64).repeat(20, 0) + np.random.default_rng(1).standard_normal((400, 64)),
    "digits": lambda: embedded().test_images,
    "sparse": lambda: (lambda x: x * (x > 2))(np.random.default_rng(0).standard_normal((400, 64))),
    "equal": lambda: smooth(40, 64).repeat(10, 0),
    "constant": lambda: np.ones((40, 64)),
}


@pytest.mark.parametrize("kind", HEALTHY)
def test_what_is_merely_alike_is_no_copy(kind):
    copied, compared = found(HEALTHY[kind]())
    assert copied <= 0.1 * compared


def test_channels_may_be_many():
    x = np.random.default_rng(0).standard_normal((40, 40, 12)).repeat(10, 0)
    x += 1e-3 * np.random.default_rng(1).standard_normal(x.shape)
    rows, values = torch.randperm(400, generator=torch.Generator().manual_seed(0)), torch.from_numpy(x).float()
    assert near_copies(lambda rows: values[rows], rows[40:], rows[:40]) == (40, 40)


def test_large_pictures_that_nearly_equal_each_other_are_named(tmp_path):
    for number, piece in enumerate(squares(8)):
        piece.save(tmp_path / f"{number}.png")
    reading = Reading(transform="rotation", crops=16)
    assert not PictureReader.read(tmp_path, reading, 32).note
    with Image.open(tmp_path / "3.png") as picture:
        picture.save(tmp_path / "copy.jpg", quality=80)
    note = PictureReader.read(tmp_path, reading, 32).note
    assert "some pictures nearly equal others (3.png and copy.jpg), and crops of both may be in two parts" in note


def test_near_copies_are_named_in_the_run_and_its_notes(niso, tmp_path):
    x = smooth(20, 16, 16).repeat(6, 0)
    x += 1e-4 * np.random.default_rng(1).standard_normal(x.shape)
    short = "--transform rotation --steps 2 --batch-size 4 --rank 4 --evaluation-pairs 4 --preset quick".split()
    told = "12 of 12 held-out observations nearly equal one that is trained on, so that metrics flatter: give those"
    for columns in ({}, {"source": np.arange(120) // 6}):
        np.savez(tmp_path / "x.npz", x=x[:, None].astype(np.float32), **columns)
        out = tmp_path / f"run{len(columns)}"
        status, _, err = niso("run", "pairs", "--data", tmp_path / "x.npz", *short, "--out", out)
        assert status == 0 and (told in err) == (not columns)
        notes = "".join(json.loads((out / "run.json").read_text()).get("notes", []))
        assert (f"! near copies: {told}" in notes) == (not columns)
