"""Sequences that are there twice are known by their frames, and named where one is trained on and the other is not."""

from __future__ import annotations

import numpy as np
import pytest

from niso.data.video.copies import copies_note, copies_of
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.prepared import RECORD, open_frames
from tests.data.video.test_prepared import video

FRAMES = np.arange(1, 41)


@pytest.mark.parametrize(
    ("other", "copied"),
    [
        (FRAMES, True),
        (FRAMES[::-1], True),
        (FRAMES[::2], True),
        (FRAMES[30:], True),
        (FRAMES + 15, True),
        (FRAMES + 25, False),
        (FRAMES + 100, False),
        (0 * FRAMES, False),
    ],
)
def test_copies_and_cuts_share_half_of_their_frames(other: np.ndarray, copied: bool) -> None:
    found = copies_of(["a", "b", "c"], [FRAMES, 1000 + FRAMES, other])
    assert found == ({"a": "a", "c": "a"} if copied else {})


def test_frames_that_are_not_known_or_in_most_sequences_tell_no_copies() -> None:
    black = [np.array([7, 7, 7, number]) for number in range(100, 200)]
    assert copies_of([str(number) for number in range(100)], black) == {}
    unknown = np.zeros(9, int)
    assert copies_of(["a", "b"], [unknown, unknown]) == {}


def test_copies_are_named_where_they_are_in_several_parts() -> None:
    copies = dict.fromkeys(["a", "b", "c"], "a") | dict.fromkeys(["d", "e"], "d")
    assert not copies_note(copies, {"train": ["a", "b", "c"], "test": ["d", "e"]})
    assert copies_note(copies, {"train": ["b"], "validation": ["c", "d"], "test": ["a", "x"]}) == (
        "b (trained on) and c (validated on) have most of their frames in common (and 1 more pairs), so that metrics "
        "flatter: keep one of each"
    )
    assert not copies_note({}, {"train": ["a"], "test": ["a"]})


def test_prepared_frames_say_so_but_those_of_earlier_versions(tmp_path) -> None:
    sequences = [video(tmp_path, "one"), video(tmp_path, "again", split="test", posed=False)]
    prepare(sequences, tmp_path / "out", preparation=Preparation(size=16, min_frames=3))
    prepared = open_frames(tmp_path / "out")
    assert prepared.copied().startswith("one (trained on) and again (tested on) have most of their frames in common")
    for shard in (tmp_path / "out").glob("*.frames"):
        content = bytearray(shard.read_bytes())
        records = np.frombuffer(content[-6 * RECORD.itemsize :], RECORD).copy()
        records["word"] = 0
        content[-6 * RECORD.itemsize :] = records.tobytes()
        shard.write_bytes(content)
    assert not open_frames(tmp_path / "out").copied()
