"""Sequences of frames: the order of their names."""

from niso.data.video.sequences import natural


def test_names_are_sorted_by_their_numbers_of_any_length_and_script():
    names = ["frame²", "frame10", "frame2", "frame007", f"frame{'9' * 5000}", "frame", "frame1b"]
    assert sorted(names, key=natural) == ["frame", "frame1b", "frame2", "frame007", "frame10", names[4], "frame²"]
