"""Frames and camera poses of several sequences, as networks see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from niso.data.evenly import evenly
from niso.data.squares import resized, signed
from niso.data.video.sequences import TEST

RENDERED = "rendered"
"""The split of rendered clips to train on, where there is other data too."""

FEW = 5
"""Sequences with poses of which at least one is kept for validation, where any share is: of fewer, all are needed."""


class Source(NamedTuple):
    """Several sequences that frames and camera poses can be read from.

    Attributes:
        names, splits: name and split of each sequence.
        lengths: number of frames of each sequence.
        poses: camera-to-world poses of each sequence, see `niso.data.video.sequences.Clip`; None where it has none.
        read: reads all frames of a sequence, or the frame of a given number, 0 … 255.
        content: a word that changes where frames or cameras do; empty for rendered clips, which the settings determine.
        copies: sequences that are there more than once, see `niso.data.video.copies.copies_of`.
    """

    names: list[str]
    splits: list[str]
    lengths: list[int]
    poses: list[Float[Tensor, "_frames 4 4"] | None]
    read: Callable[[int, int | None], UInt8[Tensor, ...]]
    content: str = ""
    copies: Mapping[str, str] = MappingProxyType({})


def joined(first: Source, second: Source) -> Source:
    """The sequences of both, those of the first before the others."""
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
        {**first.copies, **second.copies},
    )


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
        content, copies: those of the source.
    """

    def __init__(
        self, source: Source, size: int, gigabytes: float, device: torch.device, mirrored: bool = False
    ) -> None:
        self.size, self.device, self._read = size, device, source.read
        self.content, self.copies = source.content, source.copies
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

    def chosen_evenly(self, members: Int[Tensor, " sequences"], share: float) -> Int[Tensor, " chosen"]:
        """A share of these sequences, at even distances and without mirrored ones: at least one of `FEW` or more.

        Where the distances fit the turns that categories take (the first part of names), so that a category would lack,
        they are of sequences in the order of categories, if there are enough for all.
        """
        members = members[~self.mirrored[members]]
        least = 1 if share and len(members) >= FEW else 0
        chosen = evenly(max(least, round(share * len(members))), len(members))
        category = [self.names[number].partition("/")[0] for number in members.tolist()]
        if len({category[place] for place in chosen.tolist()}) < len(set(category)) <= len(chosen):
            order = torch.tensor(sorted(range(len(members)), key=category.__getitem__))
            chosen = order[chosen].sort().values
        return members[chosen]

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
        return signed(images.to(self.device, non_blocking=True))

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
