"""Trajectories of pose runs in 3-D: a web page that viser serves on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from itertools import cycle
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from niso.errors import InputError
from niso.experiments.pose.trajectories import IMAGES, Trajectories, read
from niso.geometry import se3, so3
from niso.geometry import trajectories as trajectory
from niso.training.run import Run, run_folders

EXTENT = 4.0
"""Extent of a shown trajectory in the viewer's units of length, to which the width of its lines is suited."""
FIELD_OF_VIEW = 0.8
"""Field of view of the drawn cameras in radians; the real ones may have another."""
COLOURS = {
    **{"orange": (213, 94, 0), "blue": (0, 114, 178), "green": (0, 158, 115)},
    **{"pink": (204, 121, 167), "yellow": (230, 159, 0), "light blue": (86, 180, 233)},
}
"""Colours of runs, from the palette of Okabe and Ito; the true trajectory is black."""

Runs = Mapping[str, Mapping[str, Trajectories]]
"""Trajectories by the label of the run and the name of the sequence."""


class Scene(NamedTuple):
    """One sequence at one skip, moved and scaled to the viewer's units.

    Attributes:
        truth: true camera-to-world poses of all frames.
        predicted: predicted poses of every (skip + 1)-th frame, by run.
        errors: by run, the root mean square distance of the drawn paths, relative to the extent of the true one.
        up: unit vector opposite to the mean of the cameras' downward axes.
    """

    truth: Float[Tensor, "frames 4 4"]
    predicted: dict[str, Float[Tensor, "kept 4 4"]]
    errors: dict[str, float]
    up: Float[Tensor, " 3"]


def read_runs(paths: Sequence[Path]) -> dict[str, dict[str, Trajectories]]:
    """Read the trajectories of finished pose runs, by a label for each run.

    Args:
        paths: run folders, or folders that hold run folders.

    Raises:
        InputError: a folder is not that of a finished pose run, a run is given twice, or runs were tested on different
            data.
    """
    folders = [folder for path in paths for folder in run_folders(path) or [path]]
    titles = [_title(Run.open(folder)) for folder in folders]
    runs = {
        title if titles.count(title) == 1 else f"{title} ({folder})": read(folder)
        for folder, title in zip(folders, titles, strict=True)
    }
    if len(runs) < len(folders):
        raise InputError("a run is given twice: leave one out")
    for name in names(runs):
        first, *others = (sequences[name].truth for sequences in runs.values() if name in sequences)
        if any(other.shape != first.shape or not torch.allclose(other, first) for other in others):
            raise InputError(f"the true trajectories of {name} differ: these runs were tested on different data")
    return runs


def names(runs: Runs) -> list[str]:
    """Names of all sequences of the runs."""
    return list(dict.fromkeys(name for sequences in runs.values() for name in sequences))


def skips(runs: Runs, name: str) -> list[int]:
    """Skips at which any run has predictions for a sequence."""
    return sorted({skip for sequences in runs.values() if name in sequences for skip in sequences[name].motions})


def scene(runs: Runs, name: str, skip: int) -> Scene:
    """A sequence at a skip, with the predictions of every run that has any."""
    predictions = {
        run: sequences[name] for run, sequences in runs.items() if name in sequences and skip in sequences[name].motions
    }
    true = next(iter(predictions.values())).truth.double()
    centre = se3.translation(true).mean(0)
    scale = EXTENT / se3.translation(true).sub(centre).abs().max().clamp_min(1e-12) / 2
    kept = trajectory.subsample(true, skip)
    predicted, errors = dict[str, Tensor](), dict[str, float]()
    for run, prediction in predictions.items():
        poses = trajectory.compose(prediction.motions[skip].double())
        moved, places = aligned(poses, kept), se3.translation(kept)
        error = (se3.translation(moved) - places).norm() / (places - places.mean(0)).norm()
        predicted[run], errors[run] = _moved(moved, centre, scale), float(error)
    down = se3.rotation(true)[:, :, 1].mean(0)
    return Scene(_moved(true, centre, scale), predicted, errors, -down / down.norm().clamp_min(1e-12))


def aligned(predicted: Float[Tensor, "frames 4 4"], truth: Float[Tensor, "frames 4 4"]) -> Float[Tensor, "frames 4 4"]:
    """Predicted cameras under the similarity, without reflection, that brings their positions nearest to the truth."""
    positions = se3.translation(predicted)
    scale, rotation, shift = trajectory.similarity(positions, se3.translation(truth))
    return se3.pose(rotation @ se3.rotation(predicted).double(), scale * positions.double() @ rotation.mT + shift)


class Viewer:
    """The page: choices of sequence, skip and runs, and the cameras.

    Args:
        port: port on this machine; if it is in use, the next free one.

    Raises:
        InputError: viser is not installed.
    """

    def __init__(self, runs: Runs, port: int) -> None:
        try:
            viser: Any = import_module("viser")
        except ImportError as error:
            raise InputError("`niso view` needs viser: pip install 'viser>=0.2.12'") from error
        self.runs = runs
        self._drawn: list[Any] = []
        self._lock = Lock()
        with redirect_stdout(StringIO()):  # viser prints a banner with the address, which the command prints too
            self._server = viser.ViserServer(host="127.0.0.1", port=port, verbose=False)
        gui = self._server.gui
        self._sequence = gui.add_dropdown("sequence", names(runs))
        self._skip = gui.add_dropdown("frames left out", list(map(str, skips(runs, self._sequence.value))))
        self._cameras = gui.add_checkbox("cameras", True)
        self._colours = dict(zip(runs, cycle(COLOURS), strict=False))
        self._runs = {run: gui.add_checkbox(f"{run}: {colour}", True) for run, colour in self._colours.items()}
        self._errors = gui.add_markdown("")
        self._sequence.on_update(lambda _: self._choose())
        for control in (self._skip, self._cameras, *self._runs.values()):
            control.on_update(lambda _: self.draw())
        self.draw()

    @property
    def address(self) -> str:
        """URL of the page."""
        return f"http://localhost:{self._server.get_port()}"

    def stop(self) -> None:
        """Stop serving the page."""
        with redirect_stdout(StringIO()):
            self._server.stop()

    def _choose(self) -> None:
        """Offer the skips of the chosen sequence, and draw it."""
        known, chosen = list(map(str, skips(self.runs, self._sequence.value))), self._skip.value
        self._skip.options = known
        self._skip.value = chosen if chosen in known else known[0]
        self.draw()

    def draw(self) -> None:
        """Draw the chosen sequence, in place of the one drawn before."""
        with self._lock:
            name, skip = self._sequence.value, int(self._skip.value)
            if skip not in skips(self.runs, name):  # the sequence has changed; `_choose` draws with another skip
                return
            while self._drawn:
                self._drawn.pop().remove()
            shown = scene(self.runs, name, skip)
            self._server.scene.set_up_direction(tuple(shown.up.tolist()))
            first = next(sequences[name] for sequences in self.runs.values() if name in sequences)
            self._trajectory("true", shown.truth, (0, 0, 0), first.numbers.tolist(), first.images)
            for place, run in enumerate(self.runs):
                if run in shown.predicted and self._runs[run].value:
                    poses, colour = shown.predicted[run], COLOURS[self._colours[run]]
                    every = -(-len(poses) // IMAGES)
                    self._trajectory(f"run{place}", poses, colour, range(0, len(poses), every), None)
            lines = [f"- {self._colours[run]}, {run}: {error:.2f}" for run, error in shown.errors.items()]
            self._errors.content = (
                "True cameras are black. Distance of paths, where 1 is a camera that stands still:\n\n"
                + "\n".join(lines)
            )

    def _trajectory(
        self, name: str, poses: Tensor, colour: tuple[int, int, int], cameras: Sequence[int], images: Tensor | None
    ) -> None:
        """Draw a path as a line, and some of the cameras on it."""
        drawing, positions = self._server.scene, se3.translation(poses)
        steps = torch.stack([positions[:-1], positions[1:]], dim=1).float().numpy()
        self._drawn.append(drawing.add_line_segments(f"/{name}/line", steps, colour))
        if not self._cameras.value:
            return
        for number, frame in enumerate(cameras):
            x, y, z, w = so3.rotmat_to_unitquat(se3.rotation(poses[frame])).tolist()
            image = None if images is None else images[number].permute(1, 2, 0).numpy()
            frustum = drawing.add_camera_frustum(
                f"/{name}/camera{frame}",
                FIELD_OF_VIEW,
                1.0,
                scale=EXTENT / 25,
                color=colour,
                image=image,
                wxyz=(w, x, y, z),
                position=tuple(positions[frame].tolist()),
            )
            self._drawn.append(frustum)


def _moved(poses: Tensor, centre: Tensor, scale: Tensor) -> Tensor:
    return se3.pose(se3.rotation(poses), scale * (se3.translation(poses) - centre))


def _title(run: Run) -> str:
    settings = run.settings
    if settings.get("experiment") != "pose":
        raise InputError(f"{run.path} is a run of {settings.get('experiment')}: `niso view` shows runs of pose")
    if not run.finished:
        raise InputError(f"{run.path} is not finished: {run.continuation} goes on with it")
    return f"{settings.get('preset')} · {settings.get('method')} · seed {settings.get('seed')}"
