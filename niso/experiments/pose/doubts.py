"""What makes a head or its metrics doubtful in the sequences of a run, in words."""

from __future__ import annotations

from math import isfinite

from jaxtyping import Float
from torch import Tensor

from niso.data.video.copies import copies_note
from niso.data.video.sequences import stands_still
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.losses import Scale
from niso.experiments.pose.split import Split

_UNLIKE = 10.0
"""Ratio of step lengths from which a line says so. Of the rendered clips of all presets it is at most 6."""


def about_sequences(frames: Frames, split: Split, scale: Scale) -> str:
    """What to know of the sequences that a run trains and tests on; empty where nothing is.

    Args:
        scale: that of translations in the head's loss.
    """
    notes = _still(frames, split), _steps(frames, split, scale), copies_note(frames.copies, split.names(frames))
    return "; ".join(filter(None, notes))


def step_length(poses: Float[Tensor, "frames 4 4"]) -> float:
    """Root mean square length of the steps between neighbouring frames, in the unit of the poses."""
    return float(poses[:, :3, 3].diff(dim=0).norm(dim=-1).square().mean().sqrt())


def _trained(frames: Frames, split: Split) -> dict[str, Float[Tensor, "_frames 4 4"]]:
    """Poses that the head is trained on, by the name of their sequence; of mirrored ones they are the same."""
    return {frames.names[n]: frames.posed(n) for n in split.posed.tolist() if not frames.mirrored[n]}


def _still(frames: Frames, split: Split) -> str:
    """That cameras which the head learns from never move; empty where all do."""
    still = [name for name, poses in _trained(frames, split).items() if stands_still(poses.numpy())]
    if not still:
        return ""
    more = f" (nor {'that' if len(still) == 2 else 'those'} of {len(still) - 1} more)" if still[1:] else ""
    return (
        f"the camera of {still[0]}, which the head is trained on, does not move{more}: where the pictures do, correct "
        "its cameras or leave it out"
    )


def _steps(frames: Frames, split: Split, scale: Scale) -> str:
    """That some sequences weigh more than others in the head's loss by the length of their steps; empty where they do
    not."""
    lengths = {name: step_length(poses) for name, poses in _trained(frames, split).items()}
    moving = {name: length for name, length in lengths.items() if length > 0}
    if scale == "unit" or not moving:
        return ""
    short, long = (choose(moving, key=moving.__getitem__) for choose in (min, max))
    ratio = moving[long] / moving[short]
    if not isfinite(ratio) or ratio <= _UNLIKE:
        return ""
    return (
        f"the steps of {long} are {ratio:,.0f} times as long as those of {short}, as at another speed or in another "
        "unit of length, and weigh as much more in the head's loss: with --translation-scale unit all count alike"
    )
