"""`niso pose VIDEO`: the camera's trajectory through a new video."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from niso.cli.options import PARTLY, Command, check_model, check_pictures
from niso.config import require
from niso.errors import InputError, counted
from niso.files.paths import check_place

TRAJECTORY, PICTURE = "trajectory.txt", "trajectory.png"
POSES = Path("poses")
"""Where folders of trajectories are by default."""
BUNDLED = "pose"
"""The model that is used where none is named."""


@dataclass(frozen=True)
class Options(Command):
    """Read the camera's trajectory off a video by the model that comes with niso, or by a run of `niso run pose`.

    Writes trajectory.txt in TUM's format (lines of: timestamp tx ty tz qx qy qz qw, camera-to-world, x right, y down, z
    forward, from the first frame's camera on) and trajectory.png. The scale is arbitrary: one camera cannot tell it.
    Timestamps are seconds of a video file, otherwise frames' places in order, 0, 1, 2 …, whatever their names. The exit
    status is 3 where the video could be read only in part.
    """

    examples: ClassVar[dict[str, str]] = {
        "niso pose walk.mp4": "by the model that comes with niso, to poses/walk",
        "niso pose frames --checkpoint runs/mine --skip 2": "a folder of frames, by a run",
    }

    video: Annotated[Path, Positional, arg(metavar="VIDEO")]
    """A video file, a folder of frames, or what `niso data prepare` wrote."""
    checkpoint: str | None = None
    """A run folder or its weights.safetensors, a saved model, or hf://owner/name; by default the model pose that comes
    with niso, see `niso models pose`."""
    skip: int = 0
    """Frames to leave out between neighbours."""
    average: bool = True
    """Take the trajectory that agrees best with the predicted poses of neighbours, of second neighbours, and so on, as
    far apart as the model was trained on; otherwise compose those of neighbours."""
    sequence: str | None = None
    """Which sequence of a prepared folder."""
    out: Annotated[Path | None, arg(aliases=["-o"])] = None
    """Folder to write to; poses/NAME by default."""

    def __post_init__(self) -> None:
        require(self, "skip")
        if self.checkpoint is not None:
            check_model(self.checkpoint)
        if not self.video.exists():
            raise ValueError(
                f"{self.video} does not exist: give a video file, a folder of images, or a prepared folder"
            )

    def __call__(self) -> int:
        from niso.data.video.stream import open_stream
        from niso.experiments.pose.inference import load_reader, predict, write_picture, write_tum
        from niso.hub import bundled
        from niso.loading import model_folder
        from niso.training.progress import Bar

        check_place(self.out or POSES, "--out")
        folder = bundled.find(BUNDLED).folder if self.checkpoint is None else model_folder(self.checkpoint)
        reader = load_reader(folder, tune=True)
        stream = open_stream(self.video, reader.size, self.skip + 1, self.sequence)
        out = self.out or POSES / Path(stream.name).name
        if (out / TRAJECTORY).exists():
            raise InputError(f"{out / TRAJECTORY} is there already: choose another folder by --out")
        check_pictures([out / PICTURE], out / TRAJECTORY, self.video)
        if self.checkpoint is None:
            print(f"by the model {BUNDLED} that comes with niso. {bundled.find(BUNDLED).about}", file=sys.stderr)
        with Bar("pose", stream.total, 0, visible=True, unit="frames") as bar:
            reach = max(1, (reader.head_skip + 1) // (self.skip + 1)) if self.average else 1
            predicted = predict(reader, stream.frames, lambda count: bar.show(count, {}), reach)
        if self.skip > reader.head_skip:
            print(f"the run was trained on at most {counted(reader.head_skip, 'frame')} left out", file=sys.stderr)
        try:
            write_picture(out / PICTURE, predicted)
            write_tum(out / TRAJECTORY, predicted)
        except BaseException:  # the same call is to work once the disk has room
            (out / PICTURE).unlink(missing_ok=True)
            raise
        print(f"{len(predicted.times)} poses in {out / TRAJECTORY}, drawn in {out / PICTURE}; their scale is arbitrary")
        if predicted.equal:
            neighbours = f"{predicted.equal} of {counted(len(predicted.times) - 1, 'pair')} of neighbouring frames"
            print(f"! {neighbours} are equal: what is predicted between them is no motion", file=sys.stderr)
        if predicted.ending:
            print(f"the trajectory ends early: {predicted.ending}", file=sys.stderr)
        return PARTLY if predicted.ending else 0
