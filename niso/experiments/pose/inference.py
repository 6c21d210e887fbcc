"""Camera poses for new video: the trajectory that a trained `niso run pose` run reads off it.

reader = load_reader(Path("runs/pose"))
predicted = predict(reader, open_stream(Path("walk.mp4"), reader.size).frames)
write_tum(Path("trajectory.txt"), predicted)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import roma
import torch
from jaxtyping import Float
from torch import Tensor

from niso.data.video.stream import TimedFrame
from niso.errors import InputError
from niso.experiments.pose.evaluation import BATCH
from niso.experiments.pose.experiment import frame_networks
from niso.experiments.pose.losses import PoseObjective
from niso.experiments.pose.predictors import BASELINES
from niso.experiments.pose.predictors.maps import MapPredictor
from niso.experiments.pose.predictors.predictor import Predictor
from niso.experiments.pose.presets import PoseConfig
from niso.experiments.settings import Settings
from niso.files import write_atomically
from niso.geometry import se3
from niso.geometry import trajectories as trajectory
from niso.methods import METHODS
from niso.training import checkpoint
from niso.training.processes import make_fabric, network_precision
from niso.training.run import Run

WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class PoseReader:
    """A trained predictor of relative poses.

    Attributes:
        size: height and width in pixels of the frames that it takes.
        head_skip: most frames left out between the two of a pair that it was trained on.
        precision: puts networks in the precision of the run.
    """

    predictor: Predictor
    size: int
    head_skip: int
    device: torch.device
    precision: Callable[[], AbstractContextManager[Any]]


class PredictedTrajectory(NamedTuple):
    """A trajectory read off a video.

    Attributes:
        times: of the frames, see `TimedFrame`.
        poses: camera-to-world, x right, y down, z forward, from the identity on; float64. The unit of length is
            arbitrary.
        ending: why it ends before the video does; empty where it does not.
    """

    times: list[float]
    poses: Float[Tensor, "frames 4 4"]
    ending: str


def load_reader(path: Path) -> PoseReader:
    """The predictor of a finished run of the pose experiment, on the run's kind of device, if that is there.

    Args:
        path: the run folder, or its weights.safetensors.

    Raises:
        NisoError: it is no such run, is not finished, or its files are damaged.
    """
    if path.is_file() and path.name != WEIGHTS:
        raise InputError(f"{path} is not a run's {WEIGHTS}: give the run folder")
    folder = Run.open(path.parent if path.is_file() else path)
    settings = Settings.load(folder.settings, folder.path / "config.yaml")
    if settings.experiment != "pose":
        raise InputError(f"{folder.path} is a run of {settings.experiment}: give one of `niso run pose`")
    weights = folder.path / WEIGHTS
    if not weights.is_file():
        raise InputError(f"{folder.path} is not trained to its end: finish it by `niso resume {folder.path}`")
    hardware = replace(settings.hardware, devices=1, nodes=1)
    if hardware.accelerator == "gpu":  # perhaps not this machine's
        hardware = replace(hardware, accelerator="auto")
    fabric = make_fabric(hardware, tune=False)
    config: PoseConfig = settings.config
    predictor = untrained(config, settings.method, fabric.device, network_precision(fabric))
    tensors = {f"model.{name}": tensor for name, tensor in checkpoint.load(weights)[0].items()}
    checkpoint.restore_weights(weights, tensors, PoseObjective(predictor, config.group))
    return PoseReader(predictor.eval(), config.size, config.head_skip, fabric.device, network_precision(fabric))


def untrained(
    config: PoseConfig,
    name: str,
    device: torch.device,
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Predictor:
    """A method's predictor without data: whatever is fitted to data has the right shape and no meaning.

    Raises:
        InputError: what the method is built of is missing.
    """
    if name not in METHODS:
        return BASELINES.find(name).build(config).to(device)
    method = METHODS.find(name)(config, frame_networks(config))
    method.precision = precision
    with torch.no_grad():
        first, second = method.encode(torch.rand(2, 3, config.size, config.size)).split(1)
    return MapPredictor(config, method, (first, second)).to(device)


@torch.no_grad()
def predict(
    reader: PoseReader, frames: Iterable[TimedFrame], report: Callable[[int], None] = lambda count: None
) -> PredictedTrajectory:
    """Predict the relative poses of neighbouring frames, and compose them.

    Memory holds one batch of frames, whatever their number.

    Args:
        report: called after each batch with the number of frames so far.

    Raises:
        InputError: fewer than two frames can be read, or a predicted pose is not finite.
    """
    times, motions, previous, ending = list[float](), list[Tensor](), None, ""
    try:
        for batch in _batches(frames):
            images = torch.stack([frame.image for frame in batch]).to(reader.device).float() / 127.5 - 1
            with reader.precision():
                seen = reader.predictor.features(images)
                both = seen if previous is None else torch.cat((previous, seen))
                if len(both) > 1:
                    motions.append(reader.predictor(both[:-1], both[1:]).cpu().double())
            previous = seen[-1:]
            times += [frame.time for frame in batch]
            report(len(times))
    except InputError as error:
        if not motions:
            raise
        ending = str(error)
    if not motions:
        raise InputError(f"two frames are needed at least, and there {'is' if times else 'are'} {len(times)}")
    relative = torch.cat(motions)
    if not bool(relative.isfinite().all()):
        raise InputError("predicted poses are not finite: the run's training has failed")
    exact = se3.from_parameters(se3.to_parameters(relative))  # orthonormal in float64 too
    return PredictedTrajectory(times, trajectory.compose(exact), ending)


def write_tum(path: Path, predicted: PredictedTrajectory) -> None:
    """Write a trajectory as a TUM file, which e.g. evo reads: a line of eight numbers for each frame.

    These are the time, the camera's place, and its orientation as a quaternion (x, y, z, w), camera-to-world.

    Raises:
        OSError: as the file system does; nothing half-written is left.
    """
    quaternions = roma.rotmat_to_unitquat(se3.rotation(predicted.poses))
    numbers = torch.cat((se3.translation(predicted.poses), quaternions), dim=-1)
    lines = [
        "# Camera-to-world; x right, y down, z forward, from the first frame's camera on. The scale is arbitrary.",
        "# timestamp tx ty tz qx qy qz qw",
    ]
    for time, row in zip(predicted.times, numbers.tolist(), strict=True):
        lines.append(" ".join([f"{time:.6f}", *(f"{value:.9g}" for value in row)]))
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def write_picture(path: Path, predicted: PredictedTrajectory) -> None:
    """Draw the path from above, from the side and from behind, as a PNG file.

    Raises:
        OSError: as for `write_tum`.
    """
    from niso.figures.path_views import path_views  # matplotlib is slow to import
    from niso.report.pictures import as_png

    write_atomically(path, as_png(path_views(se3.translation(predicted.poses))))


def _batches(frames: Iterable[TimedFrame]) -> Iterator[list[TimedFrame]]:
    """Frames in lists of `BATCH`; where reading them fails, those before it come first."""
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
