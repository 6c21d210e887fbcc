"""Frames and camera poses of the pose experiment's sequences, and where they come from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pooch
import safetensors.torch
import torch
from jaxtyping import Float, Int, UInt8
from safetensors import SafetensorError
from torch import Tensor

from niso.data.evenly import evenly
from niso.data.prepared import PARAMETERS, REFUSED
from niso.data.squares import resized
from niso.data.video import co3d
from niso.data.video.clips import Motion, clips
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.prepared import PreparedFrames, open_frames
from niso.data.video.sequences import TEST, TRAIN
from niso.data.workers import cores
from niso.errors import InputError, counted, remedy
from niso.experiments.pose.presets import PoseConfig
from niso.files import digest, locked, write_atomically
from niso.training.progress import preparing, say

RENDERED = "rendered"
"""The split of rendered clips to train on, where there is other data too."""

FEW = 5
"""Sequences with poses of which at least one is kept for validation, where any share is: of fewer, all are needed."""

SHARED_VIEWS = 2
"""Rooms in which each motion of the clips is shown that are to test on and share motions."""

_VERSION = 1  # of the rendered clips: raise it when the code that renders them changes them


class Source(NamedTuple):
    """Several sequences that frames and camera poses can be read from.

    Attributes:
        names, splits: name and split of each sequence.
        lengths: number of frames of each sequence.
        poses: camera-to-world poses of each sequence, see `niso.data.video.sequences.Clip`; None where it has none.
        read: reads all frames of a sequence, or the frame of a given number, 0 … 255.
        content: a word that changes where frames or cameras do; empty for rendered clips, which the settings determine.
    """

    names: list[str]
    splits: list[str]
    lengths: list[int]
    poses: list[Float[Tensor, "_frames 4 4"] | None]
    read: Callable[[int, int | None], UInt8[Tensor, ...]]
    content: str = ""


class Frames:
    """Frames and camera poses of several sequences.

    Args:
        size: height and width in pixels that frames are resized to.
        gigabytes: all frames are kept on the device if they take no more than this; otherwise each is read when needed.
        mirrored: whether to add every sequence to train on a second time, mirrored left to right.

    Attributes:
        names, splits, poses: those of the source; mirrored sequences come after the others.
        mirrored: (sequences,) whether a sequence is a mirrored one.
        lengths: (sequences,) number of frames of each sequence.
        content: that of the source.
    """

    def __init__(
        self, source: Source, size: int, gigabytes: float, device: torch.device, mirrored: bool = False
    ) -> None:
        self.size, self.device, self._read, self.content = size, device, source.read, source.content
        count = len(source.names)
        twice = [number for number in range(count) if mirrored and source.splits[number] != TEST]
        self._source = torch.tensor([*range(count), *twice], dtype=torch.long)
        self.mirrored = torch.arange(count + len(twice)) >= count
        self.names = source.names + [f"{source.names[number]} mirrored" for number in twice]
        self.splits = source.splits + [source.splits[number] for number in twice]
        self.poses = source.poses + [_mirrored(source.poses[number]) for number in twice]
        lengths = torch.tensor(source.lengths, dtype=torch.long)
        self.lengths, self._starts = lengths[self._source], lengths.cumsum(0) - lengths
        self.resident: UInt8[Tensor, "frames 3 size size"] | None = None
        if sum(source.lengths) * 3 * size**2 <= gigabytes * 1e9:
            parts = [resized(source.read(sequence, None), size) for sequence in range(count)]
            self.resident = torch.cat(parts).to(device)

    def members(self, *splits: str, posed: bool = False) -> Int[Tensor, " sequences"]:
        """Numbers of the sequences of these splits with two frames or more.

        Args:
            posed: only sequences with camera poses.
        """
        kept = [
            number
            for number, (split, poses) in enumerate(zip(self.splits, self.poses, strict=True))
            if split in splits and self.lengths[number] > 1 and not (posed and poses is None)
        ]
        return torch.tensor(kept, dtype=torch.long)

    def posed(self, number: int) -> Float[Tensor, "frames 4 4"]:
        """Camera poses of a sequence that has some."""
        poses = self.poses[number]
        assert poses is not None
        return poses

    def spread(self, members: Int[Tensor, " sequences"], share: float) -> Int[Tensor, " chosen"]:
        """A share of these sequences, at even distances and without mirrored ones: at least one of `FEW` or more."""
        members = members[~self.mirrored[members]]
        least = 1 if share and len(members) >= FEW else 0
        return members[evenly(max(least, round(share * len(members))), len(members))]

    def footage(self, members: Int[Tensor, " sequences"]) -> Int[Tensor, " kept"]:
        """Those of these sequences that are not mirrored, and no rendered clips unless all are."""
        members = members[~self.mirrored[members]]
        rendered = torch.tensor([self.splits[number] == RENDERED for number in members.tolist()], dtype=torch.bool)
        return members if bool(rendered.all()) else members[~rendered]

    def without(self, members: Int[Tensor, " sequences"], excluded: Int[Tensor, " others"]) -> Int[Tensor, " kept"]:
        """These sequences without the excluded ones and their mirrored copies.

        Args:
            excluded: numbers of sequences, none of them mirrored.
        """
        return members[~torch.isin(self._source[members], excluded)]

    def weights(self, members: Int[Tensor, " sequences"], share: float) -> Float[Tensor, " sequences"] | None:
        """Weights of sequences in a draw in which rendered clips have this share; None where they would be equal."""
        rendered = torch.tensor([self.splits[number] == RENDERED for number in members.tolist()])
        count = int(rendered.sum())
        if count in (0, len(members)):
            return None
        return torch.where(rendered, share / count, (1 - share) / (len(members) - count))

    def all_poses(self) -> tuple[Float[Tensor, "frames 4 4"], Int[Tensor, " sequences"]]:
        """Camera poses of all frames, NaN where a sequence has none, and the place of each sequence's first frame."""
        stacked = [
            torch.full((int(length), 4, 4), torch.nan, dtype=torch.float64) if poses is None else poses
            for poses, length in zip(self.poses, self.lengths, strict=True)
        ]
        return torch.cat(stacked), self.lengths.cumsum(0) - self.lengths

    def read(self, sequence: Int[Tensor, " batch"], frame: Int[Tensor, " batch"]) -> UInt8[Tensor, "batch 3 size size"]:
        """Frames with values in 0 … 255, on the device if all frames are kept there, else on the CPU.

        Args:
            sequence, frame: numbers of the sequences, and of the frames in them.

        Raises:
            InputError: a file is damaged.
        """
        source, mirrored = self._source[sequence], self.mirrored[sequence]
        if self.resident is not None:
            images = self.resident[(self._starts[source] + frame).to(self.device, non_blocking=True)]
        else:
            pairs, size = zip(source.tolist(), frame.tolist(), strict=True), self.size
            frames = [resized(self._read(*pair)[None], size)[0].permute(1, 2, 0) for pair in pairs]
            images = torch.stack(frames).permute(0, 3, 1, 2)  # pixel by pixel, as decoded: blocks that are copied whole
        if bool(mirrored.any()):
            flipped = mirrored.to(images.device, non_blocking=True)[:, None, None, None]
            images = torch.where(flipped, images.flip(-1), images)
        on_cpu = images.device.type == "cpu"
        return images.pin_memory() if on_cpu and self.device.type == "cuda" else images

    def scaled(self, images: UInt8[Tensor, "batch 3 size size"]) -> Float[Tensor, "batch 3 size size"]:
        """Frames as the input of networks: with values in [−1, 1], on the device."""
        return images.to(self.device, non_blocking=True).float() / 127.5 - 1

    def __call__(
        self, sequence: Int[Tensor, " batch"], frame: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch 3 size size"]:
        """Frames as the input of networks, by the numbers of their sequences and their numbers in these."""
        return self.scaled(self.read(sequence, frame))


def _mirrored(poses: Float[Tensor, "frames 4 4"] | None) -> Float[Tensor, "frames 4 4"] | None:
    """Poses of cameras in a world mirrored left to right: the x axes of world and camera change sign."""
    if poses is None:
        return None
    flip = torch.tensor([-1, 1, 1, 1], dtype=poses.dtype)
    return flip[:, None] * poses * flip


def open_sequences(
    config: PoseConfig, data_dir: Path | None, device: torch.device, cache: Path | None = None
) -> Frames:
    """The data of a run: a prepared folder, CO3Dv2 in its original layout, or, without a folder, the rendered clips.

    CO3Dv2 is first prepared in the user's cache, where unchanged files are prepared only once. With `config.rendered`,
    the rendered clips to train on are added to the folder's sequences, as the split `RENDERED`.

    Args:
        cache: a folder in place of the user's cache.

    Raises:
        InputError: the folder is neither, is damaged, or cannot be prepared; or the cache cannot be written to.
    """
    cache = cache or Path(pooch.os_cache("niso"))
    source = _rendered(config, cache / "clips") if data_dir is None else _read(config, data_dir, cache)
    return Frames(source, config.size, config.memory, device, config.mirrored)


def sources_unread(config: PoseConfig, data_dir: Path | None, shared: bool) -> dict[str, str]:
    """Settings of the data that a run does not read, and why, see `niso.experiments.experiment.Experiment.unread`.

    Args:
        shared: whether pre-training takes clips that share motions.
    """
    unread = dict[str, str]()
    if data_dir is None or (data_dir / PARAMETERS).is_file():
        prepared = "the sequences of --data-dir are chosen and split already"
        reason = "it is for CO3Dv2, which is not given by --data-dir" if data_dir is None else prepared
        unread |= dict.fromkeys(("quality", "held_out", "split_file"), reason)
    elif config.split_file is not None:
        unread |= dict.fromkeys(("quality", "held_out"), "--split-file replaces it")
    if data_dir is not None and not config.rendered:
        of_rooms = () if shared else ("clip_frames", "test_clips", "motions", "fields_of_view")
        rendered = ("clips", "test_frames", *of_rooms)
        unread |= dict.fromkeys(rendered, "--data-dir replaces the rendered clips; add --rendered to mix them")
    return unread


def _read(config: PoseConfig, data_dir: Path, cache: Path) -> Source:
    """The sequences of a folder, and rendered clips if configured: also clips to test on if the folder has no poses."""
    if not data_dir.is_dir():
        raise InputError(f"--data-dir {data_dir} is not a folder")
    if not (data_dir / PARAMETERS).is_file():
        if not any(data_dir.glob(f"*/{co3d.SEQUENCES}")):
            raise InputError(
                f"--data-dir {data_dir} holds neither prepared frames ({PARAMETERS}) nor CO3Dv2 "
                f"(<category>/{co3d.SEQUENCES}): prepare other footage by `niso data prepare video {data_dir} OUT`"
            )
        source = opened(_prepared(config, data_dir, cache / "frames"))
    else:
        source = opened(open_frames(data_dir))
    if not config.rendered:
        return source
    posed = any(split == TEST and poses is not None for split, poses in zip(source.splits, source.poses, strict=True))
    return _joined(source, _rendered(config, cache / "clips", RENDERED, tested=not posed))


def opened(prepared: PreparedFrames) -> Source:
    """The sequences of a prepared folder; those whose poses are not all known have none."""
    stored = [prepared.poses(sequence) for sequence in range(len(prepared.names))]

    def read(sequence: int, frame: int | None) -> Tensor:
        return prepared.clip(sequence).images if frame is None else prepared.image(sequence, frame)

    known = [poses if poses.isfinite().all() else None for poses in stored]
    sequences = zip(prepared.names, prepared.lengths, prepared.sizes, strict=True)
    content = digest(*(repr(facts).encode() for facts in sequences), *(poses.numpy().tobytes() for poses in stored))
    return Source(prepared.names, prepared.splits, prepared.lengths, known, read, content)


def _joined(first: Source, second: Source) -> Source:
    count = len(first.names)

    def read(sequence: int, frame: int | None) -> Tensor:
        return first.read(sequence, frame) if sequence < count else second.read(sequence - count, frame)

    return Source(
        first.names + second.names,
        first.splits + second.splits,
        first.lengths + second.lengths,
        first.poses + second.poses,
        read,
        first.content + second.content,
    )


def _prepared(config: PoseConfig, root: Path, cache: Path) -> PreparedFrames:
    """CO3Dv2, prepared in the cache for this split and size."""
    selection = (
        co3d.read_split(root, config.split_file)
        if config.split_file
        else co3d.select(root, config.quality, config.held_out)
    )
    preparation = Preparation(size=config.size)
    recipe = repr((str(root.resolve()), preparation, sorted(selection.splits.items())))
    folder = cache / digest(recipe.encode())
    with _writable(folder), locked(folder, wait=True):
        with preparing(folder, "sequences") as show:
            done, total = itertools.count(1), len(selection.splits)
            show("prepare", 0, total)

            def report(name: str, problem: str | None) -> None:
                show("prepare", next(done), total)

            sequences, out = co3d.sequences(root, selection), folder / "prepared"
            outcome = prepare(sequences, out, cores(), preparation, report, selection.draw)
        if refused := len(outcome.refused):
            say(f"{counted(refused, 'sequence')} of {root} cannot be used, and why is in {out / REFUSED}")
        return open_frames(out)  # before another process looks through it again


def open_shared(config: PoseConfig, device: torch.device) -> Frames:
    """Rendered clips to pre-train on, of which each `config.rooms` consecutive ones show different rooms under the same
    camera motion. Mirrored ones, which come after the others, share motions too.

    Raises:
        InputError: the cache is damaged, or cannot be written to.
    """
    fields = config.fields_of_view
    wanted = Clips(TRAIN, config.shared_clips, config.clip_frames, config.shared_motions, fields, config.rooms)
    return _frames_of(wanted, config, device, config.mirrored)


def open_held_out_shared(config: PoseConfig, motions: tuple[Motion, ...], device: torch.device) -> Frames:
    """The same to test on: `config.test_clips` motions, each in two rooms, one clip after the other."""
    count, fields = SHARED_VIEWS * config.test_clips, config.fields_of_view
    wanted = Clips(TEST, count, config.clip_frames, motions, fields, SHARED_VIEWS)
    return _frames_of(wanted, config, device)


class Clips(NamedTuple):
    """Rendered clips that are wanted, see `niso.data.video.clips.clips`."""

    split: str
    number: int
    frames: int
    motions: tuple[Motion, ...]
    fields_of_view: tuple[float, float] | None
    rooms: int = 1


def _frames_of(wanted: Clips, config: PoseConfig, device: torch.device, mirrored: bool = False) -> Frames:
    source = _stored(wanted, config.size, Path(pooch.os_cache("niso")) / "clips")
    return Frames(source, config.size, config.memory, device, mirrored)


def _rendered(config: PoseConfig, cache: Path, training: str = TRAIN, tested: bool = True) -> Source:
    """Clips that niso renders itself, when they are first needed.

    Args:
        training: the split of the clips to train on.
        tested: whether there are clips to test on too.
    """
    how = (config.motions, config.fields_of_view)
    train = Clips(TRAIN, config.clips, config.clip_frames, *how)
    source = _stored(train, config.size, cache)._replace(splits=[training] * config.clips)
    if not tested:
        return source
    return _joined(source, _stored(Clips(TEST, config.test_clips, config.test_frames, *how), config.size, cache))


def _stored(wanted: Clips, size: int, cache: Path) -> Source:
    """Clips from the cache, rendered when they are first needed."""
    split, count, length, motions, fields, rooms = wanted
    more = ((f"{rooms} rooms",) if rooms > 1 else ()) + ((f"fields of view {fields}",) if fields else ())
    recipe = repr((_VERSION, split, count, length, size, motions, *more))
    path = cache / f"{digest(recipe.encode())}.safetensors"
    if not path.is_file():
        with _writable(cache), locked(cache, wait=True):
            if not path.is_file():
                with preparing(cache, "frames") as show:
                    write_atomically(path, _render(wanted, size, show))
    try:
        stored = safetensors.torch.load_file(path)
        images, poses = list(stored["images"]), list(stored["poses"])
    except (OSError, SafetensorError, KeyError) as error:
        raise InputError(f"{path} is damaged ({error}): remove it, and its clips are rendered again") from error

    def read(sequence: int, frame: int | None) -> Tensor:
        return images[sequence] if frame is None else images[sequence][frame]

    names = [f"{motions[number // rooms % len(motions)]}/{split}{number:03}" for number in range(count)]
    return Source(names, [split] * count, list(map(len, images)), list(poses), read)


def _render(wanted: Clips, size: int, show: Callable[[str, int, int], None]) -> bytes:
    split, count, length, motions, fields, rooms = wanted
    made = clips(
        count,
        length,
        size,
        held_out=split == TEST,
        motions=motions,
        rooms=rooms,
        fields_of_view=fields,
        report=lambda frames: show(f"render {split}", frames, count * length),
    )
    stacked = {name: torch.stack([getattr(clip, name) for clip in made]) for name in ("images", "poses")}
    return safetensors.torch.save(stacked)


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        problem = error.strerror or error
        raise InputError(
            f"cannot write to the cache {folder} ({problem}): {remedy(error)}, or set XDG_CACHE_HOME"
        ) from error
