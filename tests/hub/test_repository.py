"""Models on the Hugging Face Hub, by a stand-in for its library that keeps repositories in a folder: no network."""

import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import niso
from niso.errors import InputError
from niso.experiments import EXPERIMENTS
from niso.experiments.settings import Settings
from niso.hub import card


@pytest.fixture
def library(monkeypatch, tmp_path):
    """The functions of huggingface_hub that niso calls; `calls` holds what they were given."""
    place, calls = tmp_path / "hub", []

    def create_repo(name, private, exist_ok):
        calls.append(("create", name, private, exist_ok))
        return f"https://example.org/{name}"

    def upload_folder(repo_id, folder_path, commit_message):
        shutil.copytree(folder_path, place / repo_id)

    def snapshot_download(name, revision, allow_patterns):
        calls.append(("download", name, revision))
        if not (place / name).is_dir():
            raise ConnectionError("404 Client Error.\n\nRepository Not Found")
        assert {file.name for file in (place / name).iterdir()} == set(allow_patterns)
        return str(place / name)

    made = SimpleNamespace(create_repo=create_repo, upload_folder=upload_folder, snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", made)
    made.calls = calls
    return made


@pytest.fixture(scope="module")
def fitted():
    x = np.random.default_rng(0).standard_normal((40, 16, 2)).astype(np.float32)
    few = {"steps": 3, "rank": 4, "batch_size": 4, "evaluation_pairs": 8, "progress": False}
    return niso.fit(x, np.roll(x, 3, 1), speed="exact", **few)


def test_what_is_pushed_is_loaded_bit_for_bit(library, fitted):
    assert fitted.push_to_hub("owner/name", "Encodes signals.", private=True) == "https://example.org/owner/name"
    again = niso.load("hf://owner/name@v1")
    assert library.calls == [("create", "owner/name", True, True), ("download", "owner/name", "v1")]
    x = np.random.default_rng(1).standard_normal((3, 16, 2))
    np.testing.assert_array_equal(fitted.encode(x), again.encode(x))
    assert fitted.metrics == again.metrics and again.units == fitted.units


def test_a_folder_in_the_layout_of_the_hub_is_loaded_and_its_card_says_what_it_is(library, fitted, tmp_path):
    fitted.push_to_hub("owner/name", "Encodes signals.")
    folder = tmp_path / "hub" / "owner" / "name"
    assert niso.load(folder).settings == fitted.settings
    text = (folder / card.CARD).read_text()
    assert text.startswith("---\nlibrary_name: niso\ntags:") and card.about_of(text) == "Encodes signals."
    assert 'niso.load("hf://owner/name")' in text and "- Observations: 16 × 2, signals, values -" in text
    assert "with other reading.in_memory, training.steps" not in text and "training.steps" in text


def test_a_card_has_the_metric_and_names_no_settings_that_the_method_has_in_the_preset(fitted):
    kind = EXPERIMENTS.find("homnist")
    method = next(iter(kind.method_settings["quick"]))
    config = kind.settings_of("quick", method)
    assert config != kind.settings_of("quick")
    text = card.card(
        "a", "a", "", Settings("homnist", "quick", config, method), fitted.facts, {kind.model_metric: 0.12345}
    )
    assert f"\n- `{kind.model_metric}` 0.1235" in text
    assert f"--preset quick --method {method}`, seed 0;" in text


def test_problems_are_told_in_one_line(library, fitted, monkeypatch):
    with pytest.raises(InputError, match=r"cannot download hf://no/where \(404 Client Error\): check its name") as e:
        niso.load("hf://no/where")
    assert "\n" not in str(e.value)
    for address in ("hf://name", "hf://a/b/c", "hf://../x y"):
        with pytest.raises(InputError, match="is not hf://owner/name: name a model on the Hugging Face Hub by its"):
            niso.load(address)
    with pytest.raises(InputError, match="'name' is not owner/name"):
        fitted.push_to_hub("name")
    monkeypatch.setattr(library, "create_repo", None)
    with pytest.raises(InputError, match=r"cannot upload to a/b .*: log in by"):
        fitted.push_to_hub("a/b")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (lambda: fitted.push_to_hub("a/b"), lambda: niso.load("hf://a/b")):
        with pytest.raises(InputError, match=r"needs a package: pip install 'huggingface-hub>=0\.25'"):
            call()
