"""A few damaged files for every reader, and that what the search looks for would be found."""

import gzip
import inspect
import json

import pytest
import torch
from safetensors.torch import save_file

from niso.config import Optimisation
from niso.data.digits import mnist
from niso.errors import NisoError
from niso.training import checkpoint
from tools import corpus, fuzz


def scores(content):
    entries = json.loads(gzip.decompress(content))
    entries[0]["viewpoint_quality_score"] = 10**400
    return gzip.compress(json.dumps(entries).encode())


FOUND = {
    "a small file of gigabytes": ("idx.gz", lambda _: gzip.compress(bytes(2 << 20)), "holds more than 1 MiB"),
    "an integer beyond floats": ("jgz", scores, "is not CO3Dv2's"),
    "another": ("transforms.json", lambda old: old.replace(b"0.5", b"9" * 400, 1), "cannot read cameras"),
    "a deep document": ("transforms.json", lambda _: b"[" * 100_000, "nested too deeply"),
    "a deep array": ("jgz", lambda _: gzip.compress(b"[" * 200_000), "truncated or damaged"),
    "no date": ("config.yaml", lambda _: b"seed: 2001-99-99", "is not valid YAML"),
    "a number of 5,000 digits": ("config.yaml", lambda _: b"seed: " + b"1" * 5000, "is not valid YAML"),
    "a node of HDF5": ("mat, HDF5", lambda old: old.replace(b"HEAP", b"PAEH"), "is damaged or cut off"),
    "a filter of HDF5": (
        "mat, HDF5",
        lambda old: old.replace(b"\x78\x5e", b"\x00\x00").replace(b"x\x9c", b"\0\0"),
        "is damaged",
    ),
    "a coordinate beyond squares": ("off", lambda old: old.replace(b"-0.525731112", b"-1e200", 1), "up to 1e\\+200"),
    "control characters": ("ply", lambda old: old.replace(b"float", b"\x1b[31m", 1), r"line 'property .x1b\[31m x'"),
    "a word of 5,000 letters": ("ply", lambda old: old.replace(b"ascii", b"x" * 5000, 1), "x … x"),
}


@pytest.mark.parametrize("case", FOUND)
def test_what_was_found_once_is_refused_in_one_line(tmp_path, monkeypatch, case):
    monkeypatch.setattr(mnist, "LARGEST", 1 << 20)
    name, damage, message = FOUND[case]
    path = corpus.TARGETS[name].write(tmp_path)[-1 if name == "jgz" else 0]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(NisoError, match=message) as caught:
        list(corpus.TARGETS[name].read(tmp_path))
    assert str(caught.value).isprintable() and len(str(caught.value)) <= 1000


@pytest.mark.parametrize("facts", [[], {}, {"step": "3"}, {"step": 3}])
def test_a_checkpoint_without_its_facts_is_refused(tmp_path, facts):
    module = torch.nn.Linear(4, 3)
    path = tmp_path / "pretrain.safetensors"
    tensors = {f"model.{name}": value for name, value in module.state_dict().items()}
    save_file(tensors, path, metadata={"facts": json.dumps(facts)})
    with pytest.raises(NisoError, match="delete it to start anew"):
        checkpoint.open_phase(path, module, Optimisation(steps=5))


def test_a_video_whose_metadata_is_not_text_is_read(tmp_path):
    (path,) = corpus.TARGETS["mkv"].write(tmp_path)
    content = path.read_bytes()
    assert b"Lavf" in content
    path.write_bytes(content.replace(b"Lavf", b"L\xff\xfef"))
    list(corpus.TARGETS["mkv"].read(tmp_path))


@pytest.mark.slow
def test_damaged_files_give_a_result_or_one_clear_line(tmp_path):
    counts, findings = fuzz.search(fuzz.Options(cases=8, seed=7), tmp_path)
    assert not findings
    assert counts.keys() == corpus.TARGETS.keys() and all(sum(kinds.values()) == 8 for kinds in counts.values())


def misbehave(folder):
    import os
    import time
    import warnings

    deeds = {
        "error": lambda: 1 / 0,
        "warning": lambda: warnings.warn("unclear", stacklevel=1),
        "memory": lambda: bytes(1 << 40),
        "crash": lambda: os.abort(),
        "hang": lambda: time.sleep(60),
        "unclear line": lambda: None,
    }
    deed = (folder / "deed").read_text()
    if deed in deeds:
        deeds[deed]()
    return ["\x1b[31m"] if deed == "unclear line" else []


def make_deed(folder):
    (folder / "deed").write_text("none")
    return [folder / "deed"]


WORKER = f"""
import sys
from types import SimpleNamespace
{inspect.getsource(make_deed)}
{inspect.getsource(misbehave)}
deeds = SimpleNamespace(write=make_deed, read=misbehave)
sys.modules["tools.corpus"] = SimpleNamespace(TARGETS=dict(deeds=deeds))
sys.modules["benchmarks.common"] = SimpleNamespace(Named=object, table=None, write=None)
from tools import fuzz
fuzz.work()
"""
"""A worker without the readers, which import torch: it is started three times."""


@pytest.mark.slow
def test_whatever_a_reader_does_is_found_and_the_next_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "LIMIT", 3.0)
    monkeypatch.setattr(fuzz, "WORKER", WORKER)
    reader = fuzz.Reader()
    for deed in ("none", "error", "warning", "memory", "crash", "none", "hang", "unclear line", "none"):
        (tmp_path / "deed").write_text(deed)
        assert reader.read("deeds", tmp_path)[0] == ("result" if deed == "none" else deed)
    reader.close()


def test_damage_is_the_same_for_a_seed(tmp_path):
    sound = tmp_path / "sound"
    sound.mkdir()
    corpus.TARGETS["off"].write(sound)
    (sound / ".files").write_text('["mesh.off"]')
    for name in ("one", "two"):
        fuzz.damage("off", 3, 0, sound, tmp_path / name)
    one, two = ((tmp_path / name / "mesh.off").read_bytes() for name in ("one", "two"))
    assert one == two != (sound / "mesh.off").read_bytes()
