"""Parts by units of equal and of unequal sizes."""

from dataclasses import replace

import numpy as np
import pytest

from niso.data.in_common import groups_in_common
from niso.data.pairs.reading import Reading
from niso.data.pairs.split import content, fingerprint, split
from niso.data.pairs.table import make_table
from niso.errors import InputError
from niso.random import EVALUATION_SEED

SHARES = ((0.1, 0.1), (0.2, 0.1), (0.05, 0.3))


def parts_of(sizes, validation=0.1, test=0.1, clips=False):
    """Parts of units of so many rows each, and the unit of each row."""
    units = np.arange(len(sizes)).repeat(sizes)
    x = np.arange(8 * len(units), dtype=np.float32).reshape(-1, 8)  # all differ
    table = make_table("DATA", {"x": x, "source": units}, Reading(kind="signals"))
    if clips:
        table = replace(table, source=None, clip=units)
    return split(table, validation, test), units


@pytest.mark.parametrize(("validation", "test"), SHARES)
@pytest.mark.parametrize("sizes", [[6] * 3, [2] * 10, [5] * 23, [3] * 400, [*[30] * 59, 27]])
def test_units_of_nearly_equal_sizes_are_drawn_as_they_always_were(sizes, validation, test):
    """Weights that are committed were trained on parts drawn so."""
    parts, units = parts_of(sizes, validation, test)
    order = np.random.default_rng(EVALUATION_SEED).permutation(np.arange(len(sizes)))
    ends = np.cumsum([max(1, round(share * len(sizes))) for share in (validation, test)])
    validated, tested, trained = (np.flatnonzero(np.isin(units, part)) for part in np.split(order, ends))
    for actual, expected in zip(parts, (trained, validated, tested), strict=False):
        np.testing.assert_array_equal(actual, expected)


def test_each_part_has_two_observations_that_differ_where_there_are_enough():
    x = np.random.default_rng(0).normal(size=(13, 8)).astype(np.float32)[[*range(13), *[0] * 3, *range(1, 9)]]
    parts = split(make_table("DATA", {"x": x, "tx": -x}, Reading(kind="signals")), 0.1, 0.1)
    assert all(len(np.unique(x[part], axis=0)) >= 2 for part in parts[:3])
    assert not set(map(bytes, x[parts.train])) & set(map(bytes, x[parts.test]))


def test_zeros_of_either_sign_are_equal():
    x = np.zeros((80, 16), np.float32)
    x[:, :8] = np.random.default_rng(0).normal(size=(40, 8)).repeat(2, 0)
    x[1::2, 8:] *= -1
    parts = split(make_table("DATA", {"x": x}, Reading(kind="signals")), 0.1, 0.1)
    assert not {*map(tuple, x[parts.train])} & {*map(tuple, x[parts.test])}


@pytest.mark.parametrize("change", ["label", "points", "weights", "x"])
def test_what_evaluation_depends_on_is_the_content(change):
    random = np.random.default_rng(0)
    columns = {"x": random.normal(size=(30, 20, 2)), "label": np.array(["a", "b"] * 15)}
    columns |= {"points": random.normal(size=(20, 3)), "weights": random.uniform(1, 2, 20)}
    other = np.array(["b", "c"] * 15) if change == "label" else columns[change] ** 2
    first, second, again = (
        content(make_table("DATA", given, Reading(kind="points")))
        for given in (columns, columns | {change: other}, columns)
    )
    assert first == again != second


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sizes", [(20, 20), (10, 10, 10, 10), (54, 6), (90, 5, 5), (97, 3), (400, 40, 40)])
def test_few_observations_are_drawn_evenly_over_their_classes(sizes, seed):
    label = np.random.default_rng(seed).permutation(np.arange(len(sizes)).repeat(sizes))
    x = np.random.default_rng(seed).normal(size=(len(label), 8)).astype(np.float32)
    parts = split(make_table("DATA", {"x": x, "label": label}, Reading(kind="signals")), 0.1, 0.1)
    assert all(set(label[part]) == set(label) for part in parts[:3])
    assert sorted(np.concatenate(parts[:3]).tolist()) == list(range(len(label)))
    again = split(make_table("DATA", {"x": x, "label": label}, Reading(kind="signals")), 0.1, 0.1)
    assert all(np.array_equal(one, other) for one, other in zip(parts[:3], again[:3], strict=True))


@pytest.mark.parametrize("rare", [[3, 7, 20], [3, 7]])
def test_sources_are_drawn_so_that_parts_have_most_classes(rare):
    source = np.arange(30).repeat(8)
    x = np.random.default_rng(0).normal(size=(len(source), 8)).astype(np.float32)
    columns = {"x": x, "source": source, "label": np.where(np.isin(source, rare) & (np.arange(len(x)) % 8 < 2), 1, 0)}
    parts = split(make_table("DATA", columns, Reading(kind="signals")), 0.2, 0.2)
    assert sum(1 in columns["label"][rows] for rows in parts[:3]) == len(rare)
    assert sorted(np.concatenate([np.unique(source[rows]) for rows in parts[:3]])) == list(range(30))
    columns["label"] = np.arange(len(x)) % 2
    plain, drawn = (
        split(make_table("DATA", given, Reading(kind="signals")), 0.2, 0.2)
        for given in ({"x": x, "source": source}, columns)
    )
    assert all(np.array_equal(one, other) for one, other in zip(plain[:3], drawn[:3], strict=True))


@pytest.mark.parametrize("decides", [None, "group"])
def test_labels_change_no_split_that_has_all_classes_or_that_others_decide(decides):
    x = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    columns = {"x": x, **({} if decides is None else {decides: np.arange(40) // 2})}
    plain = split(make_table("DATA", columns, Reading(kind="signals")), 0.1, 0.1)
    label = np.zeros(40, int)
    if decides is None:
        for part in plain[:3]:
            label[part[::2]] = 1
    else:
        label[plain.test] = 1
    labelled = split(make_table("DATA", columns | {"label": label}, Reading(kind="signals")), 0.1, 0.1)
    assert all(np.array_equal(one, other) for one, other in zip(plain[:3], labelled[:3], strict=True))


@pytest.mark.parametrize("transformations", [4, 5, 7, 8, 14, 40])
def test_no_part_has_one_transformation_alone(transformations):
    random = np.random.default_rng(0)
    group = random.permutation(np.arange(320) % transformations)
    x = random.normal(size=(320, 8)).astype(np.float32)
    parts = split(make_table("DATA", {"x": x, "group": group}, Reading(kind="signals")), 0.1, 0.1)
    apart = not set(group[parts.test]) & set(group[parts.train])
    assert all(len(set(group[part])) > 1 for part in parts[:3])
    assert apart == (transformations >= 8) and ("whole ones" in parts.note) != apart


@pytest.mark.parametrize("sizes", [(12, 7, 30), (30, 7, 12), (7, 30, 12), (900, 30, 30, 30, 30)])
def test_the_largest_clip_is_trained_on(sizes):
    parts, clips = parts_of(sizes, clips=True)
    assert sizes.index(max(sizes)) in clips[parts.train]
    assert len(parts.train) >= len(clips) / 2 and len(parts.validation) and len(parts.test) and not parts.note


def test_copies_of_a_clip_and_cuts_of_it_are_in_one_part():
    frames = np.random.default_rng(0).random((4, 20, 8, 1), np.float32)
    frames[:, 0] = 0  # clips that begin black are no copies
    clips = [frames[0], frames[1], frames[0], frames[2], frames[3], frames[1][3:15]]
    clip = np.arange(6).repeat([len(one) for one in clips])
    table = make_table("DATA", {"x": np.concatenate(clips)}, Reading(kind="signals"))
    parts = split(replace(table, clip=clip), 0.2, 0.2)
    together = [set(clip[rows]) for rows in parts[:3]]
    assert sorted(number for part in together for number in part) == list(range(6))
    assert all({0, 2} <= part or not {0, 2} & part for part in together)
    assert all({1, 5} <= part or not {1, 5} & part for part in together)


@pytest.mark.parametrize("largest", range(3))
def test_the_largest_of_nearly_equal_clips_is_trained_on(largest):
    parts, clips = parts_of([6 if number == largest else 5 for number in range(3)], clips=True)
    assert set(clips[parts.train]) == {largest}


@pytest.mark.parametrize("seed", range(5))
def test_parts_have_about_their_share_of_the_rows(seed):
    sizes = np.random.default_rng(seed).lognormal(3, 1, 100).astype(int) + 1
    parts, units = parts_of(sizes)
    assert sorted(np.concatenate(parts[:3]).tolist()) == list(range(len(units)))
    assert all(0.05 <= len(part) / len(units) <= 0.105 for part in parts[1:3])


def test_little_to_train_on_is_said():
    parts, _ = parts_of([4] * 10, 0.3, 0.3)
    assert parts.note == "16 of 40 observations are left to train on"


def test_held_out_pairs_of_sources_that_share_their_observations_are_counted():
    state = np.random.default_rng(0).integers(9, size=(40, 11))  # episodes of a game with nine states
    x = np.eye(9, dtype=np.float32)[state]
    columns = {"x": x[:, :-1].reshape(-1, 9), "tx": x[:, 1:].reshape(-1, 9), "source": np.arange(40).repeat(10)}
    told = "40 of 40 held-out pairs have observations that other sources have, too: these are trained on"
    assert split(make_table("DATA", columns, Reading(kind="signals")), 0.1, 0.1).note == told
    columns["x"] = np.random.default_rng(0).random((400, 9), np.float32)
    columns["tx"] = 2 * columns["x"]
    assert not split(make_table("DATA", columns, Reading(kind="signals")), 0.1, 0.1).note


@pytest.mark.parametrize("count", [15, 16, 40])
@pytest.mark.parametrize("clips", [1, 2])
def test_frames_between_the_stretches_of_a_clip_are_left_out(count, clips):
    x = np.arange(8.0 * count * clips, dtype=np.float32).reshape(-1, 8)
    table = replace(make_table("DATA", {"x": x}, Reading(kind="signals")), clip=np.arange(clips).repeat(count))
    whole, cut = (split(table, 0.2, 0.2, gap) for gap in (0, 5))
    assert [len(part) for part in cut[1:3]] == [len(part) for part in whole[1:3]]
    assert len(cut.train) >= len(whole.train) / 2
    for clip in range(clips):
        train, validation, test = (part[part // count == clip] for part in cut[:3])
        gap = min(5, len(whole.train) // clips // 4)
        assert validation.min() - train.max() == test.min() - validation.max() == gap + 1


def test_transformations_that_sources_share_are_named():
    x, number = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32), np.arange(60)
    columns = {"x": x, "tx": -x, "source": number // 6, "group": number % 6}
    note = split(make_table("DATA", columns, Reading(kind="signals")), 0.1, 0.1).note
    assert note == "sources share transformations: those of held-out observations are trained on"
    columns["group"] = number // 2
    assert not split(make_table("DATA", columns, Reading(kind="signals")), 0.1, 0.1).note


def views_apart(columns, parts):
    """Whether no observation, of any view, is in two parts."""
    seen = [{row.tobytes() for name in ("x", "tx") for row in columns[name][part]} for part in parts[:3]]
    return not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])


@pytest.mark.parametrize("seed", range(3))
def test_parts_of_pairs_that_share_observations_share_none(seed):
    random = np.random.default_rng(seed)
    states = random.normal(size=(400, 8)).astype(np.float32)
    first, second = random.integers(400, size=(2, 500))
    columns = {"x": states[first], "tx": states[second]}
    parts = split(make_table("DATA", columns, Reading(kind="signals")), 0.1, 0.1)
    assert "consecutive rows are held out" in parts.note and views_apart(columns, parts)


@pytest.mark.parametrize("sizes", [(13, 1, 1), (1, 14, 1)])
def test_a_part_of_one_row_is_refused(sizes):
    with pytest.raises(InputError, match="fewer than two observations of 3 sources are left to validate on"):
        parts_of(sizes)


def test_labels_change_no_split_where_transformations_are_too_few():
    x, group = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32), np.arange(60) % 3
    plain = split(make_table("DATA", {"x": x, "group": group}, Reading(kind="signals")), 0.1, 0.1)
    label = np.zeros(60, int)
    label[plain.test] = 1
    columns = {"x": x, "group": group, "label": label}
    labelled = split(make_table("DATA", columns, Reading(kind="signals")), 0.1, 0.1)
    assert all(np.array_equal(one, other) for one, other in zip(plain[:3], labelled[:3], strict=True))


def test_half_of_the_rows_are_enough_to_train_on():
    parts, units = parts_of([4] * 8, 0.25, 0.25)
    assert 2 * len(parts.train) == len(units) and not parts.note


def test_held_out_pairs_of_which_one_observation_is_trained_on_are_counted():
    random = np.random.default_rng(0)
    x, tx = np.eye(9, dtype=np.float32)[random.integers(9, size=400)], random.random((400, 9), np.float32)
    columns = {"x": x, "tx": tx, "source": np.arange(40).repeat(10)}
    note = split(make_table("DATA", columns, Reading(kind="signals")), 0.1, 0.1).note
    assert note.startswith("40 of 40 held-out pairs have observations")


def clips_of(*clips):
    """Parts of clips, whose frames are given by their numbers, and the clip of each frame."""
    clip = np.arange(len(clips)).repeat([len(frames) for frames in clips])
    frames = np.random.default_rng(0).random((1 + max(map(max, clips)), 8, 1), np.float32)
    table = make_table("DATA", {"x": frames[[number for one in clips for number in one]]}, Reading(kind="signals"))
    return split(replace(table, clip=clip), 0.2, 0.2), clip


def test_clips_of_which_half_is_shared_are_copies():
    clips = [one for n in range(10, 200, 10) for one in ((n, n + 1, n + 2, n + 3), (n, n + 1, n + 4, n + 5))]
    parts, clip = clips_of(*clips)
    assert all({number ^ 1 for number in clip[rows]} == set(clip[rows]) for rows in parts[:3])


def test_a_frame_that_very_many_clips_have_makes_no_copies():
    parts, clip = clips_of(*((0, number) for number in range(1, 61)))
    assert not parts.note and [len(set(clip[rows])) for rows in parts[:3]] == [36, 12, 12]


def test_a_black_clip_joins_none_of_those_that_begin_black():
    frames = np.arange(10 * 6).reshape(10, 6) + 1
    frames[:, 0] = 0
    collection, item = np.repeat(np.arange(11), 6), np.concatenate([frames, np.zeros((1, 6), int)]).ravel()
    assert len(set(groups_in_common(collection, item, 11))) == 11
    assert len(set(groups_in_common(np.arange(3), np.array([0, 0, 1]), 3))) == 2  # of single pictures


def test_short_cuts_of_clips_are_copies():
    clips = [one for n in range(0, 400, 20) for one in (range(n, n + 20), range(n + 4, n + 8))]
    parts, clip = clips_of(*clips)
    assert all({number ^ 1 for number in clip[rows]} == set(clip[rows]) for rows in parts[:3])


@pytest.mark.parametrize("column", ["group", "label", "source", "clip"])
def test_a_fingerprint_is_of_parts_and_columns_and_of_no_values(column):
    x = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    table = make_table("DATA", {"x": x}, Reading(kind="signals"))
    parts, numbers = split(table, 0.2, 0.2), np.arange(40) % 4
    changes = [(replace(table, **{column: given}), parts) for given in (numbers, numbers[::-1])]
    changes += [(table, parts._replace(train=parts.train[1:])), (table, parts._replace(test=parts.validation))]
    changes += [(make_table("DATA", {"x": x, "tx": x}, Reading(kind="signals")), parts)]
    changes += [(replace(table, **{other: numbers}), parts) for other in ("group", "clip") if other != column]
    words = [fingerprint(table, parts), *(fingerprint(*change) for change in changes)]
    assert len(set(words)) == len(words)
    assert fingerprint(make_table("DATA", {"x": x + 1}, Reading(kind="signals")), parts) == words[0]


@pytest.mark.parametrize("seed", range(3))
def test_each_part_has_clips_of_all_classes_where_there_are_enough(seed):
    label = np.random.default_rng(seed).permutation(np.arange(24) % 4)
    table = make_table("DATA", {"x": np.arange(768.0).reshape(-1, 8)}, Reading(kind="signals"))
    parts = split(replace(table, clip=np.arange(24).repeat(4), label=label.repeat(4)), 0.1, 0.1)
    assert all(set(label.repeat(4)[rows]) == set(range(4)) for rows in parts[:3])


def test_where_no_source_is_small_enough_the_smallest_is_held_out():
    parts, units = parts_of((2, 110, 110, 100, 1), 0.4, 0.2)
    assert [set(units[rows]) for rows in parts[:3]] == [{1, 2}, {0, 4}, {3}]


@pytest.mark.parametrize("count", [1, 2])
def test_few_of_a_class_are_trained_on(count):
    x, label = np.arange(320.0, dtype=np.float32).reshape(-1, 8), np.zeros(40, int)
    label[:count] = 1
    parts = split(make_table("DATA", {"x": x, "label": label}, Reading(kind="signals")), 0.1, 0.1)
    assert 0 < label[parts.train].sum()


def test_observations_of_which_one_view_varies_are_not_called_equal():
    tx = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    x = np.ones_like(tx) * (np.arange(40, dtype=np.float32) % 2)[:, None]
    table = make_table("DATA", {"x": x, "tx": tx}, Reading(kind="signals"))
    with pytest.raises(InputError, match="fewer than two observations are left to train on that occur in no other"):
        split(table, 0.1, 0.1)


@pytest.mark.parametrize("columns", [{}, {"source": np.arange(60) // 4}], ids=["alone", "sources"])
@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("tx", "all observations of tx are equal, so that nothing of x is left in them: give some that differ"),
        ("ttx", "all observations of ttx are equal, so that nothing of x is left in them: give some that differ"),
        ("x", "all observations of x are equal: give some that differ"),
    ],
)
def test_a_view_whose_observations_are_all_equal_is_named(view, words, columns):
    views = dict(zip(("x", "tx", "ttx"), np.random.default_rng(0).normal(size=(3, 60, 8)), strict=True))
    views[view] = np.zeros_like(views[view])
    with pytest.raises(InputError, match=f"^DATA: {words}$"):
        split(make_table("DATA", views | columns, Reading(kind="signals")), 0.1, 0.1)


def test_few_observations_that_are_repeated_are_counted():
    random = np.random.default_rng(0)
    x, tx = random.normal(size=(6, 8))[np.arange(420) % 6], random.normal(size=(420, 8))
    for columns in ({"x": x, "tx": tx}, {"x": x}, {"x": x, "tx": tx, "source": np.arange(420) % 6}):
        parts = split(make_table("DATA", columns, Reading(kind="signals")), 0.1, 0.1)
        told = "only 4 of the 280 observations to train on, 1 of the 70 to validate on, 1 of the 70 held out differ"
        assert parts.repeated == f"{told} from each other: give more that do"
    for x in (tx, tx[np.arange(420) // 2], tx[np.arange(420) % 60]):
        assert not split(make_table("DATA", {"x": x}, Reading(kind="signals")), 0.1, 0.1).repeated
