"""Trajectories of pose runs in 3-D: a web page on this machine, made by viser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import roma
import torch
from jaxtyping import Float
from torch import Tensor

from niso.errors import InputError
from niso.experiments.pose.trajectories import IMAGES, Trajectories, read
from niso.geometry import se3
from niso.geometry import trajectories as trajectory
from niso.training.run import Run

EXTENT = 4.0
"""Of a shown trajectory, in the viewer's units of length, which its lines are made for."""
FIELD_OF_VIEW = 0.8
"""Of the cameras drawn, in radians, whatever that of the real ones is."""
COLOURS = ((213, 94, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233))
"""Of runs, Okabe and Ito's; the truth is black."""

Runs = Mapping[str, Mapping[str, Trajectories]]
"""Sequences by name, by run."""


class Scene(NamedTuple):
    """One sequence at one skip, in the viewer's units: all true poses; predictions and √(3n)·ATE by run; the way up."""

    truth: Float[Tensor, "frames 4 4"]
    predicted: dict[str, Float[Tensor, "kept 4 4"]]
    errors: dict[str, float]
    up: Float[Tensor, " 3"]


def read_runs(given: Sequence[Path]) -> dict[str, dict[str, Trajectories]]:
    """The sequences of finished pose runs, by a label for each run. A folder of runs stands for those inside.

    Raises:
        InputError: a folder is not that of a finished pose run, or runs were tested on different data.
    """
    folders = list[Path]()
    for path in given:
        inside = [] if (path / "config.yaml").is_file() else sorted(path.glob("*/config.yaml"))
        folders += [file.parent for file in inside] or [path]
    titles = [_title(Run.open(folder)) for folder in folders]
    runs = {
        title if titles.count(title) == 1 else f"{title} ({folder})": read(folder)
        for folder, title in zip(folders, titles, strict=True)
    }
    if len(runs) < len(folders):
        raise InputError("a run is given twice: leave one out")
    for name in names(runs):
        first, *others = (own[name].truth for own in runs.values() if name in own)
        if any(other.shape != first.shape or not torch.allclose(other, first) for other in others):
            raise InputError(f"the true trajectories of {name} differ: these runs were tested on different data")
    return runs


def names(runs: Runs) -> list[str]:
    """All sequences of the runs."""
    return list(dict.fromkeys(name for own in runs.values() for name in own))


def skips(runs: Runs, name: str) -> list[int]:
    """Skips at which any run has a sequence."""
    return sorted({skip for own in runs.values() if name in own for skip in own[name].motions})


def scene(runs: Runs, name: str, skip: int) -> Scene:
    """A sequence at a skip, with every run that has it."""
    having = {run: own[name] for run, own in runs.items() if name in own and skip in own[name].motions}
    true = next(iter(having.values())).truth.double()
    centre = se3.translation(true).mean(0)
    scale = EXTENT / se3.translation(true).sub(centre).abs().max().clamp_min(1e-12) / 2
    kept = trajectory.subsample(true, skip)
    predicted, errors = dict[str, Tensor](), dict[str, float]()
    for run, own in having.items():
        poses = trajectory.compose(own.motions[skip].double())
        errors[run] = float(trajectory.ate_normalised(se3.translation(poses), se3.translation(kept)))
        predicted[run] = _moved(aligned(poses, kept), centre, scale)
    down = se3.rotation(true)[:, :, 1].mean(0)
    return Scene(_moved(true, centre, scale), predicted, errors, -down / down.norm().clamp_min(1e-12))


def aligned(predicted: Float[Tensor, "frames 4 4"], truth: Float[Tensor, "frames 4 4"]) -> Float[Tensor, "frames 4 4"]:
    """Predicted cameras after the similarity that brings their places nearest to the true ones (no reflection)."""
    places = se3.translation(predicted)
    if float(places.sub(places.mean(0)).norm()) < 1e-12:  # a camera that stands still has no scale
        rotation, shift, scale = torch.eye(3).to(places), se3.translation(truth).mean(0), places.new_zeros(())
    else:
        rotation, shift, scale = roma.rigid_points_registration(places, se3.translation(truth), compute_scaling=True)
    return se3.pose(rotation @ se3.rotation(predicted), scale * places @ rotation.mT + shift)


class Viewer:
    """The page: a sequence, a skip and runs to choose, and the cameras.

    Args:
        port: of this machine; the next free one is taken where it is in use.

    Raises:
        InputError: viser is not installed.
    """

    def __init__(self, runs: Runs, port: int) -> None:
        try:
            viser: Any = import_module("viser")
        except ImportError as error:
            raise InputError("`niso view` needs viser: pip install 'viser>=0.2.11'") from error
        self.runs = runs
        self._drawn: list[Any] = []
        self._lock = Lock()
        with redirect_stdout(StringIO()):  # it has a banner, which names the page a second time
            self._server = viser.ViserServer(host="127.0.0.1", port=port, verbose=False)
        gui = self._server.gui
        self._sequence = gui.add_dropdown("sequence", names(runs))
        self._skip = gui.add_dropdown("frames left out", list(map(str, skips(runs, self._sequence.value))))
        self._cameras = gui.add_checkbox("cameras", True)
        self._runs = {run: gui.add_checkbox(run, True) for run in runs}
        self._errors = gui.add_markdown("")
        self._sequence.on_update(lambda _: self._choose())
        for control in (self._skip, self._cameras, *self._runs.values()):
            control.on_update(lambda _: self.draw())
        self.draw()

    @property
    def address(self) -> str:
        return f"http://localhost:{self._server.get_port()}"

    def stop(self) -> None:
        with redirect_stdout(StringIO()):
            self._server.stop()

    def _choose(self) -> None:
        """Another sequence may have other skips."""
        known, chosen = list(map(str, skips(self.runs, self._sequence.value))), self._skip.value
        self._skip.options = known
        self._skip.value = chosen if chosen in known else known[0]
        self.draw()

    def draw(self) -> None:
        """Show what is chosen, in place of what was shown before."""
        with self._lock:
            name, skip = self._sequence.value, int(self._skip.value)
            if skip not in skips(self.runs, name):  # the sequence has changed, and another skip is being chosen
                return
            while self._drawn:
                self._drawn.pop().remove()
            shown = scene(self.runs, name, skip)
            self._server.scene.set_up_direction(tuple(shown.up.tolist()))
            first = next(own[name] for own in self.runs.values() if name in own)
            self._trajectory("true", shown.truth, (0, 0, 0), first.numbers.tolist(), first.images)
            for place, run in enumerate(self.runs):
                if run in shown.predicted and self._runs[run].value:
                    poses, colour = shown.predicted[run], COLOURS[place % len(COLOURS)]
                    every = -(-len(poses) // IMAGES)
                    self._trajectory(f"run{place}", poses, colour, range(0, len(poses), every), None)
            lines = [f"- {run}: {error:.2f}" for run, error in shown.errors.items()]
            self._errors.content = "√(3n)·ATE:\n\n" + "\n".join(lines)

    def _trajectory(
        self, name: str, poses: Tensor, colour: tuple[int, int, int], cameras: Sequence[int], images: Tensor | None
    ) -> None:
        """A line, and some of the cameras on it."""
        add, places = self._server.scene, se3.translation(poses)
        steps = torch.stack([places[:-1], places[1:]], dim=1).float().numpy()
        self._drawn.append(add.add_line_segments(f"/{name}/line", steps, colour))
        if not self._cameras.value:
            return
        for number, frame in enumerate(cameras):
            x, y, z, w = roma.rotmat_to_unitquat(se3.rotation(poses[frame])).tolist()
            image = None if images is None else images[number].permute(1, 2, 0).numpy()
            look = {"scale": EXTENT / 25, "color": colour, "image": image}
            place = {"wxyz": (w, x, y, z), "position": tuple(places[frame].tolist())}
            self._drawn.append(add.add_camera_frustum(f"/{name}/camera{frame}", FIELD_OF_VIEW, 1.0, **look, **place))


def _moved(poses: Tensor, centre: Tensor, scale: Tensor) -> Tensor:
    return se3.pose(se3.rotation(poses), scale * (se3.translation(poses) - centre))


def _title(run: Run) -> str:
    settings = run.settings
    if settings.get("experiment") != "pose":
        raise InputError(f"{run.path} is a run of {settings.get('experiment')}: `niso view` shows runs of pose")
    if not run.finished:
        raise InputError(f"{run.path} is not finished: `niso resume {run.path}` goes on with it")
    return f"{settings.get('preset')} · {settings.get('method')} · seed {settings.get('seed')}"
