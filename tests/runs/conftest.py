"""A sweep that is trained once, and calls in place of processes."""

from collections.abc import Sequence
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


class Threaded:
    """Stands for a process of `niso resume` by a call in this one, in the thread that starts it."""

    def __init__(self, words: Sequence[str], **_: object) -> None:
        from niso.cli.main import main

        with pytest.raises(SystemExit) as stop:
            main(list(words[words.index("resume") :]))
        self.status = int(stop.value.code or 0)

    def wait(self) -> int:
        return self.status

    poll = wait


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs side by side begin no processes: importing the library anew would take nearly all of their time."""
    monkeypatch.setattr("niso.runs.parallel.Popen", Threaded)
