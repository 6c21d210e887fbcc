"""What makes metrics of poses doubtful in the sequences of a run, in words."""

from __future__ import annotations

from niso.data.video.copies import copies_note
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.split import Split


def about_sequences(frames: Frames, split: Split) -> str:
    """What to know of the sequences that a run trains and tests on; empty where nothing is."""
    return copies_note(frames.copies, split.names(frames))
