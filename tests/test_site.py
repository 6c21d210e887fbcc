"""The site builds without a warning and fetches nothing, and its tutorials run."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from niso.experiments.pairs.presets import PRESETS
from tests.forked import Popen
from tools import site
from tools.notebooks import run

ROOT = Path(__file__).parents[1]
NOTEBOOKS = [ROOT / "docs" / "concepts" / "method.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
FETCHED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"?(?:https?:)?//[^>]*|url\([\"']?https?:[^)]*")
"""What a browser would load from the network by itself."""


def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path):
    """Pages, links and anchors between them, and names in the API reference; notebooks are not run here."""
    environment = {**os.environ, "NISO_NOTEBOOKS": "no", "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    with Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as built:
        _, said = built.communicate()
    assert built.returncode == 0 and not said, said
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > 40
    for page in [*pages, *tmp_path.rglob("*.css")]:
        assert not FETCHED.findall(page.read_text(encoding="utf-8")), page
    assert "<math" in (tmp_path / "concepts" / "method.html").read_text(encoding="utf-8")
    assert "isometric_map_from_covariance" in (tmp_path / "reference" / "maps.html").read_text(encoding="utf-8")
    assert "equivariance_error" in (tmp_path / "reference" / "metrics.html").read_text(encoding="utf-8")
    shapes = (tmp_path / "experiments" / "shapes.html").read_text(encoding="utf-8")
    assert "\N{NO-BREAK SPACE}± " not in shapes and shapes.count("\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}") > 10
    settings = (tmp_path / "reference" / "settings.html").read_text(encoding="utf-8")
    assert "--eigenvalue-noise" in settings and "Probability of spectral dropout." in settings


def test_every_picture_of_the_documents_is_shown():
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")))
    pictures = [picture.name for picture in (ROOT / "docs" / "images").iterdir()]
    assert pictures and [name for name in pictures if f"images/{name})" not in pages] == []


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_runs(page, tmp_path, monkeypatch, registries):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(PRESETS, "quick", replace(PRESETS["quick"], evaluation_pairs=16))  # of `niso.fit`
    cells = list(run(page.read_text(encoding="utf-8"), small=True))
    assert any(cell.pictures for cell in cells) or page.stem == "extending"
    assert all(cell.alt for cell in cells if cell.pictures), "a picture needs words for those who do not see it"


@pytest.mark.parametrize(
    "file", ["niso/a.py", "niso/hub/models/torus/model.safetensors", "niso/report/templates/p.html"]
)
def test_a_notebook_is_run_again_where_what_it_uses_has_changed(tmp_path, monkeypatch, file):
    ran = []
    monkeypatch.delenv("NISO_NOTEBOOKS", raising=False)
    monkeypatch.setattr(site, "ROOT", tmp_path)
    monkeypatch.setattr(site, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(site, "run", lambda text: ran.append(text) or [])
    (tmp_path / file).parent.mkdir(parents=True)
    for content, times in (("1", 1), ("1", 1), ("2", 2)):
        (tmp_path / file).write_text(content)
        site._cells("page")
        assert len(ran) == times
