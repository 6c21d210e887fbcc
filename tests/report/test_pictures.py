"""Pictures are drawn at two pixels for each of the page's, once for light and once for dark pages."""

import base64
import io

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from niso import figures
from niso.report import Picture, pictures, save_pictures


@pytest.fixture
def plot():
    figure = Figure((2, 1))
    figure.subplots().plot([0, 1])
    return figure


def pixels(source):
    kind, content = source.split(",")
    assert kind == "data:image/webp;base64"
    return np.array(Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB"))


@pytest.mark.usefixtures("drawn")
def test_a_picture_has_its_size_in_a_page(plot, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "DPI", 20)
    save_pictures([Picture("name", "caption", plot)], tmp_path)
    embedded = pictures.embed(tmp_path / "name.png", "name", "caption")
    (panel,) = embedded.panels
    assert (panel.width, panel.height, embedded.width, embedded.caption) == (200, 100, 200, "caption")
    narrow = pictures.embed(tmp_path / "name.png", "name", "caption", widest=50)
    assert (narrow.panels[0].width, narrow.panels[0].height) == (50, 25)


@pytest.mark.usefixtures("drawn")
def test_panels_are_cut_where_nothing_is_drawn(monkeypatch):
    monkeypatch.setattr(pictures, "DPI", 100)
    drawn = figures.matrix_pair(np.eye(9), -np.eye(9), ("learned Ω", "Laplacian"))
    embedded = pictures.embed_drawn(Picture("operators", "Two operators; more is said later. And more.", drawn))
    assert [panel.alt for panel in embedded.panels] == [
        "Two operators: panel 1 of 2: learned Ω.",
        "Two operators: panel 2 of 2: Laplacian.",
    ]
    assert embedded.width == 1000
    for panel in embedded.panels:
        for source, paper in ((panel.light, (255, 255, 255)), (panel.dark, (22, 24, 27))):
            image = pixels(source)
            assert (image[:, [0, -1]] == paper).all() and not (image == paper).all()


@pytest.mark.usefixtures("drawn")
def test_panels_of_a_picture_are_in_one_scale(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "DPI", 100)
    figure = Figure((10, 2))
    for part in figure.subfigures(1, 2, width_ratios=[1, 4]):
        part.subplots()
    save_pictures([Picture("name", "caption", figure)], tmp_path)
    narrow, wide = pictures.embed(tmp_path / "name.png", "name", "caption", widest=400).panels
    assert (narrow.width, wide.width, narrow.height, wide.height) == (100, 400, 100, 100)


@pytest.mark.usefixtures("drawn")
def test_what_is_said_of_axes_in_parts_of_parts():
    figure = Figure((8, 2))
    left, right = figure.subfigures(1, 2)
    for number, part in enumerate(left.subfigures(2, 1)):
        part.subplots().set_title(f"map {number}")
    first, blank = right.subplots(1, 2)
    first.set(xlabel="step", ylabel="error")
    blank.set(title=" ", xlabel=" ", ylabel="unseen")
    embedded = pictures.embed_drawn(Picture("name", "Maps.", figure))
    assert [panel.alt for panel in embedded.panels] == [
        "Maps: panel 1 of 2: map 0; map 1.",
        "Maps: panel 2 of 2: error against step.",
    ]
    alone = Figure((2, 1))
    alone.subplots().set(xlabel="step", ylabel="error")
    (panel,) = pictures.embed_drawn(Picture("name", "Error against step. And more.", alone)).panels
    assert panel.alt == "Error against step."  # once


@pytest.mark.usefixtures("drawn")
def test_the_dark_picture_is_shown_where_it_belongs_to_the_light_one(plot, tmp_path):
    save_pictures([Picture("name", "caption", plot)], tmp_path)
    file = tmp_path / "name.png"
    (panel,) = pictures.embed(file, "name", "caption").panels
    assert pixels(panel.light).mean() > 200 and pixels(panel.dark).mean() < 60
    Image.new("RGB", (3, 3)).save(pictures.dark_file(file))  # of an earlier evaluation
    assert pictures.embed(file, "name", "caption").panels[0].dark == ""
    pictures.dark_file(file).unlink()
    assert pictures.embed(file, "name", "caption").panels[0].dark == ""


def test_what_is_seen_is_said_of_pictures_without_caption_or_panels(tmp_path):
    Image.new("RGB", (40, 20)).save(tmp_path / "old_map.png")
    (panel,) = pictures.embed(tmp_path / "old_map.png", "old_map.png", "").panels
    assert panel.alt == "old map."


@pytest.mark.parametrize("content", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n"])
def test_what_is_not_a_picture_has_no_panels(content, tmp_path):
    (tmp_path / "a.png").write_bytes(content)
    assert not pictures.embed(tmp_path / "a.png", "name", "caption").panels


def test_pictures_of_an_earlier_evaluation_are_removed(plot, tmp_path):
    save_pictures([Picture(name, "caption", plot) for name in ("kept", "earlier")], tmp_path)
    (tmp_path / "mine.png").write_bytes((tmp_path / "kept.png").read_bytes())
    save_pictures([Picture("kept", "caption", plot)], tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*.png")) == ["kept.png", "kept.png", "mine.png"]


def test_a_picture_taller_than_its_format_permits_is_made_smaller(tmp_path):
    file = tmp_path / "tall.png"
    Image.new("RGB", (4, 20_000)).save(file)
    (panel,) = pictures.embed(file, "tall", "caption").panels
    assert panel.height <= pictures.WEBP and pixels(panel.light).shape == (pictures.WEBP, 3, 3)
    Image.new("RGB", (20_000, 2)).save(file)
    assert len(pictures.embed(file, "wide", "caption", widest=100).panels) == 1
