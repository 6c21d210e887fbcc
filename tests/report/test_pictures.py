"""Pictures are drawn at two pixels for each of the page's."""

import pytest
from matplotlib.figure import Figure

from niso.report import Picture, pictures


def test_a_picture_has_its_size_in_a_page(drawn, monkeypatch):
    monkeypatch.setattr(pictures, "DPI", 20)
    figure = Figure((2, 1))
    figure.subplots().plot([0, 1])
    embedded = pictures.embed_drawn(Picture("name", "caption", figure))
    assert (embedded.width, embedded.height, embedded.caption) == (200, 100, "caption")
    narrow = pictures.embed(pictures.as_png(figure), "name", "caption", widest=50)
    assert (narrow.width, narrow.height) == (50, 25)


@pytest.mark.parametrize("content", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n"])
def test_what_is_not_a_picture_has_no_source(content):
    assert pictures.embed(content, "name", "caption").source == ""
