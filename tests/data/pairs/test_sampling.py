"""No observation is in two parts; pairs, groups and clips are what they say; the readers of folders."""

from itertools import chain, combinations, pairwise

import numpy as np
import pytest
import torch
from PIL import Image

from niso.data.pairs.clips import ClipReader
from niso.data.pairs.find import find_reader
from niso.data.pairs.paired import PairedReader
from niso.data.pairs.pictures import PictureReader, shipped_photographs
from niso.data.pairs.reading import Reading
from niso.data.pairs.sampling.choose import pair_data
from niso.data.pairs.sampling.frames import NeighbouringFrames
from niso.data.pairs.sampling.recorded import RecordedPairs
from niso.data.pairs.scaling import scaled, unscaled
from niso.data.pairs.split import PARTS, Parts, content, split
from niso.data.pairs.table import make_table
from niso.data.pairs.tensors import as_tensor, bytes_of
from niso.data.pairs.variation import Variation
from niso.errors import InputError
from niso.geometry.action import Action
from niso.geometry.make import make_action


def signals(count=40, length=8):
    """Each observation is its own number."""
    return np.arange(count, dtype=np.float32)[:, None].repeat(length, 1)


def paired(transform=None, skip=5, transformed_first=False, **columns):
    table = make_table("DATA", columns, Reading(kind="signals"))
    first_view = "transformed" if transformed_first else "given"
    reading = Reading(transform=transform, skip=skip, first_view=first_view)
    return pair_data(table, reading, 0.1, 0.1, torch.device("cpu"))


def numbers(data, view):
    """Which observations a batch holds."""
    return unscaled(view[:, 0, 0], data.scaling, False).round().long().tolist()


def assert_apart(*parts):
    for first, second in combinations(parts, 2):
        assert not set(first) & set(second)


def test_parts_are_apart_and_complete():
    data = paired(x=signals(), tx=signals() + 100)
    rows = [data.rows[part].tolist() for part in PARTS]
    assert_apart(*rows)
    assert sorted(chain(*rows)) == list(range(40)) and min(map(len, rows)) >= 4


def test_a_picture_that_occurs_several_times_is_in_one_part():
    picture = np.arange(60) // 3  # each under three transformations
    columns = {"x": signals(60)[picture], "tx": signals(60) + 100}
    parts = split(make_table("DATA", columns, Reading(kind="signals")), 0.1, 0.1)
    assert_apart(*(picture[part] for part in parts[:3]))


def test_groups_stay_together_where_they_can():
    group = np.arange(60) // 4
    columns = {"x": signals(60), "tx": signals(60) + 100, "group": group}
    parts = split(make_table("DATA", columns, Reading(kind="signals")), 0.1, 0.1)
    assert_apart(*(group[part] for part in parts[:3]))


def test_a_chain_of_observations_is_cut_into_stretches_that_share_none():
    """The frames of a film as pairs: tx of a row is x of the next."""
    x = signals(101)
    parts = split(make_table("DATA", {"x": x[:-1], "tx": x[1:]}, Reading(kind="signals")), 0.1, 0.1)
    seen = [{*part.tolist(), *(part + 1).tolist()} for part in parts[:3]]
    assert_apart(*seen)
    assert "held out" in parts.note and len(parts.train) > 70


def test_a_part_that_would_be_empty_is_refused():
    same = np.broadcast_to(signals(1), (40, 8))
    with pytest.raises(
        InputError, match="DATA: fewer than two observations are left to train on that occur in no other part"
    ):
        paired(x=signals(2)[np.arange(40) % 2], tx=signals())
    with pytest.raises(InputError, match="DATA: all observations are equal: give some that differ"):
        paired(x=same, tx=same)
    with pytest.raises(InputError, match="observations of 2 sources are left to train on: give more sources"):
        paired("shift", x=signals(), source=np.arange(40) % 2)


def test_groups_share_their_transformation():
    group = np.arange(60) % 15
    data = paired(x=signals(60), tx=signals(60) + 100, group=group)
    assert data.grouped and data.usual_group == data.largest_group == 4
    x, tx = data.sample(12, group=3)
    for members in torch.tensor(numbers(data, x)).view(4, 3).tolist():
        assert len(set(members)) == 3 and len({group[m] for m in members}) == 1
    torch.testing.assert_close(tx - x, torch.full_like(x, 100 / data.scaling.scale[0]), atol=1e-4, rtol=0)
    for x, _, other, _ in data.pairs("test", 100, torch.Generator()):
        assert all(group[a] == group[b] and a != b for a, b in zip(numbers(data, x), numbers(data, other), strict=True))


def test_one_group_may_be_much_larger_than_the_others():
    """As where rows whose T is not known have one number: memory grows with the rows, not with groups × members."""
    group = np.concatenate([np.zeros(400, int), np.arange(1, 61).repeat(2)])
    data = paired(x=signals(520), tx=signals(520) + 100, group=group)
    x, _ = data.sample(400, group=2)
    drawn = [{group[member] for member in members} for members in torch.tensor(numbers(data, x)).view(-1, 2).tolist()]
    assert all(len(names) == 1 for names in drawn) and 200 < sum(names == {0} for names in drawn) * 2
    for x, _, *others in data.pairs("train", 10_000, torch.Generator()):
        for other in others[:1]:
            pairs = zip(numbers(data, x), numbers(data, other), strict=True)
            assert all(group[a] == group[b] and a != b for a, b in pairs)


def trained(x, group):
    """Recorded pairs of which the numbers in `group` say which share a T, nearly all of them to train on."""
    table = make_table("DATA", {"x": x, "tx": x + 100, "group": group}, Reading(kind="signals"))
    rows = np.arange(len(x))
    return RecordedPairs(table, Parts(rows[:-4], rows[-4:-2], rows[-2:]), 1.0, torch.device("cpu"))


@pytest.mark.parametrize(("sharing", "drawn"), [(2, [10, 10]), (8, [16, 4])])
def test_pairs_that_share_no_transformation_are_measured_too(sharing, drawn):
    number = np.arange(204)
    group = np.where(number % 10 < sharing, number // 10, 100 + number)  # so many of ten share one
    data = trained(signals(204), group)
    first, second = data.pairs("train", 200, torch.Generator())
    assert (len(first), len(second)) == (4, 2)
    assert sorted(numbers(data, first[0]) + numbers(data, second[0])) == list(range(200))
    pairs = zip(numbers(data, first[0]), numbers(data, first[2]), strict=True)
    assert all(group[a] == group[b] and a != b for a, b in pairs)
    assert [len(x) for x, *_ in data.pairs("train", 20, torch.Generator())] == drawn


def test_the_other_pair_is_no_copy_where_there_is_one_that_is_not():
    number = np.arange(64)
    x = signals(64)[np.where(number % 6 < 3, number // 6 * 6, number)]  # three copies and three others of a T
    x[:6] = x[0]  # copies alone
    data = trained(x, number // 6)
    first, second = data.pairs("train", 100, torch.Generator())
    assert (len(first), len(second)) == (4, 2) and len(first[0]) == 54
    assert (first[0] != first[2]).flatten(1).any(1).all() and not second[0].diff(dim=0).any()


def test_large_groups_are_drawn_evenly_and_without_repetition():
    data = paired(x=signals(3_000), tx=signals(3_000) + 100, group=np.arange(3_000) % 4)
    drawn = torch.cat([torch.tensor(numbers(data, data.sample(400, group=4)[0])) for _ in range(20)]).view(-1, 4)
    assert all(len(set(members)) == 4 for members in drawn.tolist())
    assert len(drawn.unique()) > 0.9 * data.count("train") and (drawn % 4 == drawn[:, :1] % 4).all()


def test_a_group_that_all_pairs_share_is_named():
    assert "one number in group" in paired(x=signals(60), tx=signals(60) + 100, group=np.zeros(60, int)).note
    assert not paired(x=signals(60), tx=signals(60) + 100, group=np.arange(60) % 15).note


def test_pairs_without_groups_say_so():
    data = paired(x=signals(), tx=signals() + 100)
    assert not data.note
    assert not data.grouped and data.views == 2
    assert all(len(batch) == 2 for batch in data.pairs("test", 100, torch.Generator()))
    assert paired(x=signals(), tx=signals(), ttx=signals()).views == 3


def test_augmented_heads_get_both_views_with_the_labels_of_their_rows():
    label = np.random.default_rng(0).integers(3, size=40)
    data = paired(x=signals(), tx=signals() + 100, label=label)
    views, labels = data.sample_labelled(200)
    seen = numbers(data, views)
    assert 50 < sum(number >= 100 for number in seen) < 150
    assert {number % 100 for number in seen} == set(data.rows["train"].tolist())
    assert labels.tolist() == [label[number % 100] for number in seen]


def test_niso_transforms_single_observations_in_groups_and_triplets():
    x = np.random.default_rng(0).standard_normal((40, 8, 1)).astype(np.float32)
    data = paired("shift", x=x)
    assert data.grouped and data.views == 3
    first, second, third = data.sample(8, views=3, group=4)
    for start in (0, 4):
        shifts = [
            next(by for by in range(8) if torch.equal(a.roll(by, 0), b))
            for a, b in zip(first[start : start + 4], second[start : start + 4], strict=True)
        ]
        assert len(set(shifts)) == 1
        assert torch.equal(second[start].roll(shifts[0], 0), third[start])
    for views in data.pairs("validation", 10, torch.Generator()):
        for x, tx, other, moved in zip(*views, strict=True):
            assert not torch.equal(x, other)  # or maps would be tested on what they were solved from
            assert any(torch.equal(x.roll(by, 0), tx) and torch.equal(other.roll(by, 0), moved) for by in range(8))


@pytest.mark.parametrize("group", [2, 4])
def test_no_group_has_an_observation_twice(group):
    """A map that is solved from the others would be solved from the pair that it is to transport."""
    x = np.random.default_rng(0).standard_normal((15, 8, 1)).astype(np.float32)
    data = paired("shift", x=x)
    for views in (data.sample(64, group=group)[0] for _ in range(5)):
        assert all(len(members.unique(dim=0)) == group for members in views.split(group))


def test_what_cannot_be_paired_is_refused():
    with pytest.raises(InputError, match="name a transformation that niso is to apply by --transform"):
        paired(x=signals())
    with pytest.raises(InputError, match="leave --transform out"):
        paired("shift", x=signals(), tx=signals())
    with pytest.raises(InputError, match=r"--transform homography does not fit signals .*: it acts on images"):
        paired("homography", x=signals())
    with pytest.raises(InputError, match="mobius does not fit signals"):
        paired("mobius", x=signals())
    with pytest.raises(InputError, match="unknown transform 'homograpy'; did you mean homography"):
        paired("homograpy", x=signals())


@pytest.mark.parametrize("name", ["shift", "rotation", "affine", "homography", "colour", "elastic", "mobius"])
def test_every_transformation_acts_on_images_of_any_shape(name):
    action = make_action("--transform", name, "images", (3, 12, 16))
    x = torch.rand(4, 3, 12, 16) * 2 - 1
    t = action.sample(4, torch.Generator().manual_seed(0))
    moved = action.act(x, t)
    assert moved.shape == x.shape and moved.isfinite().all() and not torch.equal(moved, x)
    assert (action.strength(t) > 0).any()
    assert isinstance(action, Action) == (name != "elastic")


@pytest.mark.parametrize("name", ["shift", "rotation"])
def test_transformations_act_on_volumes(name):
    action = make_action("--transform", name, "volumes", (2, 4, 6, 8))
    x = torch.rand(4, 2, 4, 6, 8) * 2 - 1
    t = action.sample(4, torch.Generator().manual_seed(0))
    moved = action.act(x, t)
    assert moved.shape == x.shape and not torch.equal(moved, x) and isinstance(action, Action)
    with pytest.raises(InputError, match="homography does not fit volumes"):
        make_action("--transform", "homography", "volumes", (2, 4, 6, 8))


def test_shifts_of_volumes_go_round_along_each_axis():
    x = torch.rand(1, 2, 4, 6, 8)
    moved = make_action("--transform", "shift", "volumes", (2, 4, 6, 8)).act(x, torch.tensor([[1, 2, 3]]))
    assert torch.equal(moved, x.roll((1, 2, 3), (2, 3, 4)))


def test_rotations_of_wide_images_leave_the_distances_of_pixels():
    turns = make_action("--transform", "rotation", "images", (1, 5, 9)).sample(20, torch.Generator().manual_seed(0))
    half = torch.tensor([2.0, 4.0], dtype=torch.float64)  # pixels from the middle one to the outermost
    in_pixels = half[:, None] * turns[:, :2, :2] / half
    torch.testing.assert_close(in_pixels @ in_pixels.mT, torch.eye(2, dtype=torch.float64).expand(20, 2, 2))


@pytest.mark.parametrize("shape", [(3, 1, 1), (3, 1, 8), (1, 8, 1)])
def test_images_of_one_pixel_are_not_turned(shape):
    for name in ("rotation", "affine", "homography", "mobius"):
        with pytest.raises(InputError, match=f"{name} does not fit images .*: it needs 2×2 pixels or more"):
            make_action("--transform", name, "images", shape)
    for name in ("shift", "colour"):
        if name == "shift" and shape[1:] == (1, 1):
            with pytest.raises(InputError, match="action shift: none of 512 transformations moves anything"):
                make_action("--transform", name, "images", shape)
            continue
        x = torch.rand(4, *shape) * 2 - 1
        action = make_action("--transform", name, "images", shape)
        assert action.act(x, action.sample(4)).isfinite().all()


def test_first_views_may_be_transformed_too():
    """Each observation by a transformation of its own, and then by the one that its group shares."""
    x = np.random.default_rng(0).standard_normal((40, 8, 1)).astype(np.float32)
    data = paired("shift", x=x, transformed_first=True)
    assert "also first views" in data.paired
    given = data.view("x", data.rows["train"])
    views = data.sample(32, views=3, group=4)
    begun = [next(by for by in range(8) for x in given if torch.equal(x.roll(by, 0), first)) for first in views[0]]
    assert len(set(begun)) > 4
    for start in range(0, 32, 4):
        first, second, third = (view[start : start + 4] for view in views)
        shift = next(by for by in range(8) if torch.equal(first.roll(by, 1), second))
        assert torch.equal(second.roll(shift, 1), third)
    held_out = data.view("x", data.rows["validation"])
    for x, *_ in data.pairs("validation", 10, torch.Generator()):
        assert all((held_out == one).all((1, 2)).any() for one in x)  # metrics are of observations as they are given
    with pytest.raises(InputError, match="--transform warp does not compose, as --first-view transformed needs"):
        paired("warp", x=signals(60, 16), transformed_first=True)
    with pytest.raises(InputError, match="--first-view transformed needs views that niso makes itself"):
        paired(x=signals(), tx=signals(), transformed_first=True)


def test_signals_are_warped_in_groups_and_those_of_one_recording_stay_together():
    data = paired("warp", x=signals(60, 16), source=np.arange(60) // 6)
    assert data.grouped and data.views == 2 and data.sample(8, group=4)[1].shape == (8, 16, 1)
    assert_apart(*(rows.numpy() // 6 for rows in data.rows.values()))
    with pytest.raises(InputError, match="of pictures that niso transforms itself, not of DATA: set it to 0"):
        data.vary(Variation())


def test_pictures_are_varied_before_they_are_transformed():
    table = make_table("DATA", {"x": np.random.default_rng(0).random((20, 3, 8, 8))}, Reading())
    data = pair_data(table, Reading(transform="colour"), 0.1, 0.1, torch.device("cpu"))
    data.vary(Variation(0.3))
    x, tx = data.sample(64)
    assert x.abs().max() <= 1 and len(x.flatten(1).unique(dim=0)) == 64 and not torch.equal(x, tx)


@pytest.mark.parametrize("shape", [(8, 2), (3, 8, 8), (2, 4, 4, 4)], ids=["signals", "images", "volumes"])
def test_scaling_is_that_of_observations_to_train_on(shape):
    x = np.random.default_rng(0).standard_normal((40, *shape))
    held_out = torch.cat([rows for part, rows in pairs_of(x).rows.items() if part != "train"]).numpy()
    before, x[held_out] = pairs_of(x).scaling, 1_000 * x[held_out]
    data = pairs_of(x)
    assert not set(data.rows["train"].tolist()) & set(held_out.tolist())
    assert data.scaling == before
    x[data.rows["train"][0]] *= 1_000
    assert pairs_of(x).scaling != before


@pytest.mark.parametrize("shape", [(8, 2), (2, 4, 8), (2, 4, 4, 8)], ids=["signals", "images", "volumes"])
def test_rounding_of_a_constant_channel_is_not_made_large(shape):
    x = np.random.default_rng(0).random((40, *shape), dtype=np.float32)
    channel = x[:, 1] if len(shape) == 3 else x[..., 1]
    channel[:] = np.where(channel < 0.5, np.float32(1), np.nextafter(np.float32(1), np.float32(0)))
    assert np.ptp(channel) > 0 and float(min(pairs_of(x).scaling.scale)) > 0.1


def pairs_of(x):
    """Recorded pairs of observations of any kind, whose values may be changed afterwards."""
    table = make_table("DATA", {"x": x.copy(), "tx": x + 1}, Reading())
    return pair_data(table, Reading(), 0.1, 0.1, torch.device("cpu"))


def test_scaling_is_undone():
    data = paired(x=signals(), tx=signals())
    values = torch.randn(5, 8, 1)
    torch.testing.assert_close(unscaled(scaled(values, data.scaling, False), data.scaling, False), values)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.float64])
def test_large_numbers_keep_their_digits(dtype):
    times = 1_600_000_000 + np.arange(40, dtype=dtype)[:, None].repeat(8, 1)
    data = paired("shift", x=times)
    values = data.view("x", torch.arange(40))
    assert values.dtype == torch.float32 and len(values.unique()) == 40
    assert scaled(as_tensor(times), data.scaling, False).unique().equal(values.unique())


def test_other_values_are_told_by_a_word():
    x = signals(1_000)
    words = [content(paired(x=values, tx=x + 1).table) for values in (x, x.copy(), x + 1e-3)]
    assert words[0] == words[1] != words[2]


def test_data_that_is_not_in_memory_gives_the_same(tmp_path):
    x = np.random.default_rng(0).standard_normal((40, 8, 2))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "tx.npy", x + 1)
    table = find_reader(tmp_path, Reading()).read(tmp_path, Reading(), 8)
    kept, mapped = (pair_data(table, Reading(memory=memory), 0.1, 0.1, torch.device("cpu")) for memory in (1.0, 1e-9))
    batches = []
    for data in (kept, mapped):
        torch.manual_seed(0)
        batches.append(torch.cat(data.sample(16)))
    assert torch.equal(*batches)


# Folders of pictures


def write(path, number, size=16):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size, size, 3), number, np.uint8)).save(path)


def read(path, **reading):
    options = Reading(**reading)
    return find_reader(path, options).read(path, options, 8)


def test_paired_folders_are_matched_by_name(tmp_path):
    for number in range(16):
        write(tmp_path / "a" / f"{number}.png", number)
        write(tmp_path / "b" / f"{number}.bmp", 100 + number)
    table = read(tmp_path)
    first, second = (table.views[name][:, 0, 0, 0] for name in ("x", "tx"))
    assert (second == first + 100).all() and table.shape == (3, 8, 8)
    write(tmp_path / "b" / "lonely.png", 0)
    with pytest.raises(InputError, match=r"b/lonely.png has no picture of the same name in a/"):
        read(tmp_path)
    (tmp_path / "a" / "lonely.png").write_bytes(b"not a picture")
    with pytest.raises(InputError, match=r"lonely.png cannot be read .*: repair or remove it"):
        read(tmp_path)
    write(tmp_path / "other" / "a" / "before1.png", 0)
    write(tmp_path / "other" / "b" / "after1.png", 0)
    with pytest.raises(
        InputError, match=r"no picture in b/ has the name of one in a/, as after1\.png has not: give the "
    ):
        read(tmp_path / "other")


def test_folders_that_are_more_than_a_and_b_are_no_pairs(tmp_path):
    for folder in "abc":
        write(tmp_path / folder / "0.png", 0)
    (tmp_path / "notes").mkdir()
    write(tmp_path / ".thumbnails" / "0.png", 0)
    assert find_reader(tmp_path, Reading()) is PairedReader
    write(tmp_path / "d" / "0.png", 0)
    with pytest.raises(InputError, match="for pairs leave a/ and b/"):  # or masks beside them
        find_reader(tmp_path, Reading())
    assert find_reader(tmp_path, Reading(transform="rotation")) is PictureReader
    write(tmp_path / "a" / "1.png", 0)
    assert find_reader(tmp_path, Reading()) is ClipReader


def test_clips_are_paired_within_themselves_and_not_across(tmp_path):
    for clip in range(5):
        for frame in range(6):
            write(tmp_path / f"clip{clip}" / f"{frame}.png", 20 * clip + frame)
    write(tmp_path / "single" / "0.png", 0)
    table = read(tmp_path, skip=2)
    assert "single has 1 frame and is left out" in table.note
    data = pair_data(table, Reading(skip=2), 0.2, 0.2, torch.device("cpu"))
    clips = [set((table.clip[rows]).tolist()) for rows in data.rows.values()]
    assert_apart(*clips)
    x, tx = (unscaled(view[:, 0, 0, 0], data.scaling, False).round().long() for view in data.sample(200))
    assert (x // 20 == tx // 20).all() and ((x - tx).abs() <= 2).all() and (x != tx).all()
    assert (x < tx).any() and (x > tx).any()


def test_one_clip_is_cut_into_stretches(tmp_path):
    for frame in range(40):
        write(tmp_path / "clip" / f"{frame}.png", frame)
    data = pair_data(read(tmp_path), Reading(skip=3), 0.1, 0.1, torch.device("cpu"))
    assert "fewer than three clips" in data.note and "up to 3 frames between stretches are left out" in data.note
    seen = []
    for part in PARTS:
        pairs = list(data.pairs(part, 200, torch.Generator().manual_seed(0)))
        views = [unscaled(view[:, 0, 0, 0], data.scaling, False) for batch in pairs for view in batch]
        seen.append(torch.cat(views).round().tolist())
    assert_apart(*seen)
    for earlier, later in pairwise(seen):
        assert min(later) - max(earlier) > 3


def test_frames_are_not_paired_across_those_of_another_part(tmp_path):
    for frame in range(30):
        write(tmp_path / "clip" / f"{frame}.png", frame)
    train, validation, test = (np.array([*range(at, at + 5), *range(at + 15, at + 20)]) for at in (0, 5, 10))
    data = NeighbouringFrames(read(tmp_path), Parts(train, validation, test), 1.0, torch.device("cpu"), skip=29)
    x, tx = (unscaled(view[:, 0, 0, 0], data.scaling, False).round().long() for view in data.sample(200))
    assert set(x.tolist()) | set(tx.tolist()) == set(train.tolist())
    assert ((x - tx).abs() < 5).all()


def test_folders_of_pictures_are_classes_and_large_pictures_are_cut(tmp_path):
    for number in range(16):
        write(tmp_path / "small" / ("even", "odd")[number % 2] / f"{number}.png", number)
        write(tmp_path / "large" / f"{number}.png", number, 40)
    table = read(tmp_path / "small", transform="rotation")
    assert table.classes == ("even", "odd") and (table.label == table.views["x"][:, 0, 0, 0] % 2).all()
    cut = read(tmp_path / "small", transform="rotation", crops=32)
    assert cut.classes == table.classes and (cut.label == cut.views["x"][:, 0, 0, 0] % 2).all() and len(cut) == 32
    crops = read(tmp_path / "large", transform="rotation", crops=60)
    assert crops.views["x"].shape == (64, 3, 8, 8) and (np.bincount(crops.source) == 4).all()
    parts = split(crops, 0.1, 0.1)
    assert_apart(*(crops.source[part] for part in parts[:3]))
    with pytest.raises(InputError, match="name a transformation"):
        pair_data(read(tmp_path / "large"), Reading(), 0.1, 0.1, torch.device("cpu"))
    with pytest.raises(InputError, match="allow it by --memory 1, or choose a smaller --size"):
        read(tmp_path / "large", transform="rotation", crops=0, memory=1e-6)
    with pytest.raises(InputError, match=r"--crops 0 takes pictures whole, and the photographs .* too few"):
        shipped_photographs(Reading(crops=0), 8)


def test_crops_of_copies_of_a_picture_stay_together(tmp_path):
    for number in range(6):
        write(tmp_path / f"{number}.png", number, 40)
        write(tmp_path / f"{number}-copy.bmp", number, 40)
    (tmp_path / "link.png").symlink_to(tmp_path / "3.png")
    table = read(tmp_path, transform="rotation", crops=52)
    values = table.views["x"][:, 0, 0, 0]
    assert table.cropped and len(np.unique(table.source)) == 6
    assert all(len(np.unique(values[table.source == source])) == 1 for source in range(6))


def test_folders_of_parts_are_not_taken_for_classes(tmp_path):
    for number in range(32):
        write(tmp_path / ("test", "train")[number % 2] / ("cat", "dog")[number // 16] / f"{number}.png", number)
    (tmp_path / "test").rename(tmp_path / "new")
    with pytest.raises(InputError, match=r"\(new, train\) holds the same folders \(cat, dog\).*one of them as DATA"):
        read(tmp_path, transform="rotation")
    assert read(tmp_path / "train", transform="rotation").classes == ("cat", "dog")
    write(tmp_path / "new" / "bird" / "0.png", 0)
    assert read(tmp_path, transform="rotation").classes == ("new", "train")
    for name in ("test", "Validation"):  # which need not have the same classes
        (tmp_path / "new").rename(tmp_path / name)
        with pytest.raises(InputError, match=rf"\({name}, train\) are parts of a data set.*one of them as DATA"):
            read(tmp_path, transform="rotation")
        (tmp_path / name).rename(tmp_path / "new")


def test_pairs_that_niso_is_to_transform_may_be_classes(tmp_path):
    for number in range(32):
        write(tmp_path / "ab"[number % 2] / f"{number // 2}.png", number)
    table = read(tmp_path, transform="rotation")
    with pytest.raises(InputError, match="leave --transform out; classes need other names than a and b"):
        pair_data(table, Reading(transform="rotation"), 0.1, 0.1, torch.device("cpu"))


def test_folders_of_parts_without_classes_label_nothing(tmp_path):
    for number in range(32):
        write(tmp_path / ("test", "train")[number % 2] / f"{number}.png", number)
    table = read(tmp_path, transform="rotation")
    assert table.classes == () and "there are no labels, for test, train are parts of a data set" in table.note
    assert table.note.endswith("is drawn anew: to keep the others unseen, give train/ alone as DATA")


@pytest.mark.parametrize("kind", ["u1", "i1", "<f2", ">i2", "<u2", "<u4", "<i8", ">f4", "<f8"])
def test_memory_is_that_of_the_tensors(kind):
    values = (signals(40) % 7).astype(kind)
    tensor = as_tensor(values)
    assert bytes_of(values) == tensor.numel() * tensor.element_size()
    table = make_table("DATA", {"x": values}, Reading(kind="signals"))
    for room, kept in ((1.0, True), (0.99, False)):
        memory = room * bytes_of(values) / 1e9
        reading = Reading(transform="shift", memory=memory)
        assert bool(pair_data(table, reading, 0.1, 0.1, torch.device("cpu"))._resident) == kept


def test_arrays_that_are_read_backwards_are_tensors():
    for shape in ((1, 3, 2), (3, 1), (3, 2)):
        values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        for flipped in (values[::-1], values[:, ::-1], values[..., ::-1]):
            assert as_tensor(flipped).numpy().tolist() == flipped.tolist()
