"""Camera poses for new video: the trajectory that a finished run of `niso run pose` predicts.

reader = load_reader(Path("runs/pose"))
predicted = predict(reader, open_stream(Path("walk.mp4"), reader.size).frames)
write_tum(Path("trajectory.txt"), predicted)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from niso.data.squares import signed
from niso.data.video.stream import TimedFrame
from niso.errors import InputError
from niso.experiments.pose.evaluation import BATCH
from niso.experiments.pose.experiment import Pose
from niso.experiments.pose.losses import PoseObjective
from niso.experiments.pose.predictors.predictor import Predictor
from niso.experiments.pose.presets import PoseConfig
from niso.experiments.registered import OF_MODEL, check_registered
from niso.experiments.saved import read_trained
from niso.experiments.settings import Settings
from niso.files.writing import write_atomically
from niso.geometry import se3, so3
from niso.geometry.averaging import averaged
from niso.training import checkpoint
from niso.training.defaults import new_defaults
from niso.training.processes import make_fabric, network_precision


@dataclass(frozen=True)
class PoseReader:
    """A trained predictor of relative poses.

    Attributes:
        size: height and width in pixels of the frames that it takes.
        head_skip: the most frames left out between the two of a pair that it was trained on.
    """

    predictor: Predictor
    size: int
    head_skip: int
    device: torch.device


class PredictedTrajectory(NamedTuple):
    """A trajectory predicted for a video.

    Attributes:
        times: times of the frames, see `TimedFrame`.
        poses: camera-to-world poses (x right, y down, z forward) in float64; the first is the identity. The unit of
            length is arbitrary.
        ending: why the trajectory ends before the video does; empty if it does not.
        equal: number of neighbouring frames that are equal: a motion that is predicted between them is none.
    """

    times: list[float]
    poses: Float[Tensor, "frames 4 4"]
    ending: str
    equal: int = 0


def load_reader(folder: Path, tune: bool = False) -> PoseReader:
    """Load the predictor of a finished run of the pose experiment, in the precision of the run, or of a saved one.

    It is put on the kind of device that the run was trained on, if this machine has one.

    Args:
        folder: of the run, or of a saved model, see `niso.loading.model_folder`.
        tune: let the run's settings change torch's number of threads and the C library's allocation, for the whole
            process, see `niso.training.processes.make_fabric`.

    Raises:
        NisoError: the folder is not that of a finished run of the experiment, or its files are damaged.
    """
    weights, (settings, _, _, tensors) = read_trained(folder, partial(_check_kind, folder))
    fabric = make_fabric(settings.hardware.alone(), tune=tune)
    config: PoseConfig = settings.config
    with torch.random.fork_rng(devices=[]), new_defaults():
        predictor = Pose.kind(settings.method).build(config)
        predictor.precision = network_precision(fabric)
        frames = torch.rand(1, 3, config.size, config.size)
        predictor.complete([(frames, frames)])  # tensors that are fitted to data have the right shapes and no meaning
    fabric.setup_module(predictor)  # its weights on the device and, for 64-true, in float64
    named = {f"model.{name}": tensor for name, tensor in tensors.items()}
    checkpoint.restore_weights(weights, named, PoseObjective(predictor, config.head_group))
    return PoseReader(predictor.eval(), config.size, config.head_skip, fabric.device)


def _check_kind(folder: Path, settings: Settings, facts: Mapping[str, Any]) -> None:
    if settings.experiment != "pose":
        raise InputError(f"{folder} is a run of {settings.experiment}: give one of `niso run pose`")
    check_registered(folder, settings, facts, OF_MODEL)


@torch.no_grad()
def predict(
    reader: PoseReader,
    frames: Iterable[TimedFrame],
    report: Callable[[int], None] = lambda count: None,
    reach: int = 1,
) -> PredictedTrajectory:
    """Predict the relative poses of neighbouring frames, and compose them to a trajectory.

    Frames are read in batches, so that a long video takes no more memory than a short one.

    Args:
        report: called after each batch with the number of frames so far.
        reach: also predict the poses of second, third, … neighbours up to this one, and take the trajectory that agrees
            best with all of them, see `niso.geometry.averaging`.

    Raises:
        InputError: fewer than two frames can be read, or a predicted pose is not finite.
    """
    times, previous, ending, equal = list[float](), None, "", 0
    last: list[TimedFrame] = []
    motions: dict[int, list[Tensor]] = {apart: [] for apart in range(1, reach + 1)}
    try:
        for batch in _batches(frames):
            images = signed(torch.stack([frame.image for frame in batch]).to(reader.device))
            with reader.predictor.precision():
                encoded = reader.predictor.features(images)
                known = 0 if previous is None else len(previous)
                if previous is not None:
                    encoded = torch.cat((previous, encoded))
                for apart, parts in motions.items():
                    first, second = encoded[max(known - apart, 0) :], encoded[max(known, apart) :]
                    if len(second):
                        parts.append(reader.predictor(first[: len(second)], second).cpu().double())
            previous = encoded[-reach:]
            times += [frame.time for frame in batch]
            equal += sum(torch.equal(one.image, other.image) for one, other in pairwise([*last, *batch]))
            last = batch[-1:]
            report(len(times))
    except InputError as error:
        if not motions[1]:
            raise
        ending = str(error)
    if not motions[1]:
        there = f"{'is' if times else 'are'} {len(times)}"
        raise InputError(f"at least two frames are needed, after any --skip, and there {there}: give more")
    relative = {apart: torch.cat(parts) for apart, parts in motions.items() if parts}
    if not all(bool(part.isfinite().all()) for part in relative.values()):
        raise InputError("predicted poses are not finite: the run's training has failed")
    exact = {apart: se3.from_parameters(se3.to_parameters(part)) for apart, part in relative.items()}  # in float64 too
    return PredictedTrajectory(times, averaged(exact), ending, equal)


def write_tum(path: Path, predicted: PredictedTrajectory) -> None:
    """Write a trajectory in the TUM format, which for example evo reads: a line of eight numbers for each frame.

    These are the time, the camera's position, and its orientation as a quaternion (x, y, z, w), camera-to-world.

    Raises:
        OSError: the file cannot be written; no part of it is left.
    """
    quaternions = so3.rotmat_to_unitquat(se3.rotation(predicted.poses))
    numbers = torch.cat((se3.translation(predicted.poses), quaternions), dim=-1)
    lines = [
        "# Camera-to-world; x right, y down, z forward, relative to the first camera. The scale is arbitrary.",
        "# timestamp tx ty tz qx qy qz qw",
    ]
    for time, row in zip(predicted.times, numbers.tolist(), strict=True):
        lines.append(" ".join([f"{time:.6f}", *(f"{value:.9g}" for value in row)]))
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def write_picture(path: Path, predicted: PredictedTrajectory) -> None:
    """Draw the path as seen from above, from the side and from behind, and write it as a PNG file.

    Raises:
        OSError: the file cannot be written; no part of it is left.
    """
    from niso.figures.path_views import path_views  # matplotlib is slow to import
    from niso.report.pictures import as_png

    write_atomically(path, as_png(path_views(se3.translation(predicted.poses))))


def _batches(frames: Iterable[TimedFrame]) -> Iterator[list[TimedFrame]]:
    """Frames in lists of `BATCH`. Where reading fails, the frames before come first, then the error."""
    batch, problem = list[TimedFrame](), None
    try:
        for frame in frames:
            batch.append(frame)
            if len(batch) == BATCH:
                yield batch
                batch = []
    except InputError as error:
        problem = error
    if batch:
        yield batch
    if problem is not None:
        raise problem
