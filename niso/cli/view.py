"""`niso view RUN…`: trajectories of pose runs in 3-D, in a web browser."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from niso.cli.options import Runs


@dataclass(frozen=True)
class Options(Runs):
    """Show true and predicted trajectories of finished runs of `niso run pose` in a web browser.

    Several runs, tested on the same data, are shown side by side. The page is served to this machine alone, until
    Ctrl-C. Predictions are brought nearest to the truth by a similarity without reflection; the field of view of the
    cameras drawn is not that of the real ones.
    """

    examples: ClassVar[dict[str, str]] = {
        "niso view runs/pose-small-niso-seed0": "its trajectories",
        "niso view runs/pose-small-niso-seed0 runs/pose-small-nft-seed0": "side by side",
    }

    port: int = 8080
    """Port of the page, or the first free one after it."""
    once: bool = False
    """Stop as soon as the page is ready, as a check that everything is there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.port < 65536:
            raise ValueError(f"--port must be between 1 and 65535, got {self.port}")

    def __call__(self) -> None:
        from niso.experiments.pose.view import Viewer, read_runs

        viewer = Viewer(read_runs(self.runs), self.port)
        try:
            print(f"{viewer.address} shows the trajectories; Ctrl-C ends it", flush=True)
            while not self.once:
                time.sleep(1)
        except KeyboardInterrupt:
            pass
        finally:
            viewer.stop()
