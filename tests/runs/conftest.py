"""A sweep that is trained once."""

from pathlib import Path

import pytest

OPTIONS = "--size 4 --images 3 --pool 50 --steps 3 --batch-size 1 --evaluation-pairs 2 --seed 4 --seeds 2".split()


@pytest.fixture(scope="package")
def trained_sweep(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Path:
    """A finished sweep of the torus, seeds 4 and 5."""
    from niso.cli.main import main

    out = tmp_path_factory.mktemp("runs") / "sweep"
    with pytest.raises(SystemExit) as stop:
        main(["run", "torus", *OPTIONS, "--data-dir", str(images), "--out", str(out)])
    assert not stop.value.code
    return out
