"""A sweep that is trained once."""

from pathlib import Path

import pytest

OPTIONS = "--size 4 --images 3 --pool 50 --steps 3 --batch-size 1 --evaluation-pairs 2 --seed 4 --seeds 2".split()


@pytest.fixture(scope="package")
def trained_sweep(tmp_path_factory: pytest.TempPathFactory, images: Path, blank_png: bytes) -> Path:
    """A finished sweep of the torus, seeds 4 and 5."""
    from niso.cli.main import main

    out = tmp_path_factory.mktemp("runs") / "sweep"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stop:
        patch.setattr("matplotlib.figure.Figure.savefig", lambda _, file, **__: file.write(blank_png))
        main(["run", "torus", *OPTIONS, "--data-dir", str(images), "--out", str(out)])
    assert not stop.value.code
    return out
