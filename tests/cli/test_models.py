"""`niso models`, and names of models in place of runs."""

import numpy as np

from niso.hub import bundled


def test_models_are_listed_and_their_cards_shown(niso, refused):
    listed = niso("models")
    assert listed.status == 0 and listed.err == ""
    for name in bundled.names():
        model = bundled.find(name)
        assert f"{name} ({model.size / 1e3:,.0f} kB): {model.metric}" in listed.out
        assert niso("models", name).out == model.card
    assert "no model 'homnst-group' comes with niso; did you mean homnist-group?" in refused("models", "homnst-group")


def test_a_name_stands_for_a_run(niso, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).integers(256, size=(2, 1, 40, 40)).astype(np.uint8))
    assert niso("features", "homnist-group", "x.npy", "-o", "f.npz").status == 0
    assert niso("map", "homnist-group", "x.npy", "x.npy").status == 0
    assert "neither a run folder nor a model of niso's; did you mean homnist-group?" in refused(
        "features", "homnist-groups", "x.npy"
    )
    assert "hf://name is not hf://owner/name" in refused("features", "hf://name", "x.npy")
