"""Frames of the pose experiment's sequences as networks take them, and where they come from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pooch
import safetensors.torch
import torch
from jaxtyping import Float, Int, UInt8
from safetensors import SafetensorError
from torch import Tensor

from niso.data import co3d
from niso.data.clips import clips
from niso.data.frame_preparation import Preparation, prepare
from niso.data.frames import PreparedFrames, open_frames
from niso.data.prepared import PARAMETERS
from niso.errors import InputError
from niso.experiments.pose_config import PoseConfig
from niso.files import locked, write_atomically
from niso.progress import Bar

TRAIN, TEST = co3d.TRAIN, co3d.TEST

_VERSION = 1  # of the rendered clips: to be raised where the code that makes them changes them


class Frames:
    """Frames and camera poses of several sequences.

    Args:
        names, splits: of the sequences.
        poses: of each sequence, camera-to-world (see `niso.data.sequences.Clip`); None where it has none.
        lengths: frames of each sequence.
        read: all frames of a sequence, or one of them, 0 … 255.
        size: height and width in pixels that frames are resized to.
        gigabytes: frames up to this size are kept on the device; others are read when they are asked for.
    """

    def __init__(
        self,
        names: list[str],
        splits: list[str],
        lengths: list[int],
        poses: list[Float[Tensor, "_frames 4 4"] | None],
        read: Callable[[int, int | None], UInt8[Tensor, ...]],
        size: int,
        gigabytes: float,
        device: torch.device,
    ) -> None:
        self.names, self.splits, self.poses, self.size, self.device = names, splits, poses, size, device
        self.lengths = torch.tensor(lengths)
        self.starts = self.lengths.cumsum(0) - self.lengths
        self._source = read
        self.dtype = torch.float32
        """What `scaled` gives."""
        self.resident: UInt8[Tensor, "frames 3 size size"] | None = None
        if sum(lengths) * 3 * size**2 <= gigabytes * 1e9:
            parts = [self._resized(read(sequence, None)) for sequence in range(len(names))]
            self.resident = torch.cat(parts).to(device)

    def members(self, split: str, posed: bool = False) -> Int[Tensor, " sequences"]:
        """Numbers of a split's sequences of two frames at least; with `posed`, of those with camera poses."""
        kept = [
            number
            for number, (own, poses) in enumerate(zip(self.splits, self.poses, strict=True))
            if own == split and self.lengths[number] > 1 and not (posed and poses is None)
        ]
        return torch.tensor(kept, dtype=torch.long)

    def read(self, sequence: Int[Tensor, " batch"], frame: Int[Tensor, " batch"]) -> UInt8[Tensor, "batch 3 size size"]:
        """Frames as they are stored, on the device where they are kept there, else on the CPU.

        Raises:
            InputError: a damaged file.
        """
        if self.resident is not None:
            return self.resident[(self.starts[sequence] + frame).to(self.device)]
        images = [self._source(*pair)[None] for pair in zip(sequence.tolist(), frame.tolist(), strict=True)]
        return torch.cat([self._resized(image) for image in images])

    def scaled(self, images: UInt8[Tensor, "batch 3 size size"]) -> Float[Tensor, "batch 3 size size"]:
        """Frames as networks take them, in [−1, 1], on the device."""
        return images.to(self.device, non_blocking=True).to(self.dtype) / 127.5 - 1

    def __call__(
        self, sequence: Int[Tensor, " batch"], frame: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch 3 size size"]:
        """Given frames of given sequences."""
        return self.scaled(self.read(sequence, frame))

    def _resized(self, images: Tensor) -> Tensor:
        if images.shape[-1] == self.size:
            return images
        size = (self.size, self.size)
        smooth = torch.nn.functional.interpolate(images.float(), size, mode="bilinear", antialias=True)
        return smooth.round().clamp(0, 255).byte()


def open_sequences(
    config: PoseConfig, data_dir: Path | None, device: torch.device, cache: Path | None = None
) -> Frames:
    """A run's data: a prepared folder, CO3Dv2 in its own layout, or, without a folder, the rendered clips.

    CO3Dv2 is prepared first, into the user's cache; what is there of unchanged files is kept.

    Args:
        cache: a folder in place of the user's cache.

    Raises:
        InputError: the folder is neither, is damaged, or cannot be prepared, or the cache cannot be written to.
    """
    cache = cache or Path(pooch.os_cache("niso"))
    if data_dir is None:
        return _rendered(config, cache / "clips", device)
    if not data_dir.is_dir():
        raise InputError(f"--data-dir {data_dir} is not a folder")
    if not (data_dir / PARAMETERS).is_file():
        if not any(data_dir.glob(f"*/{co3d.SEQUENCES}")):
            raise InputError(
                f"--data-dir {data_dir} holds neither prepared frames ({PARAMETERS}) nor CO3Dv2 "
                f"(<category>/{co3d.SEQUENCES})"
            )
        data_dir = _prepared(config, data_dir, cache / "frames")
    return _opened(config, open_frames(data_dir), device)


def _opened(config: PoseConfig, prepared: PreparedFrames, device: torch.device) -> Frames:
    poses = [prepared.poses(sequence) for sequence in range(len(prepared.names))]

    def read(sequence: int, frame: int | None) -> Tensor:
        return prepared.clip(sequence).images if frame is None else prepared.image(sequence, frame)

    return Frames(
        prepared.names,
        prepared.splits,
        prepared.lengths,
        [own if own.isfinite().all() else None for own in poses],
        read,
        config.size,
        config.memory,
        device,
    )


def _prepared(config: PoseConfig, root: Path, cache: Path) -> Path:
    """CO3Dv2 prepared in the cache, by folder, split and size."""
    selection = (
        co3d.read_split(root, config.split_file)
        if config.split_file
        else co3d.select(root, config.quality, config.held_out)
    )
    preparation = Preparation(size=config.size)
    recipe = repr((str(root.resolve()), preparation, sorted(selection.splits.items())))
    folder = cache / hashlib.sha256(recipe.encode()).hexdigest()[:16]
    with _writable(folder), locked(folder, wait=True):
        with Bar("prepare", len(selection.splits), 0, visible=True, unit="sequences") as bar:
            done = 0

            def report(name: str, problem: str | None) -> None:
                nonlocal done
                done += 1
                bar.show(done, {})

            prepare(co3d.sequences(root, selection), folder / "prepared", cores(), preparation, report)
    return folder / "prepared"


def cores() -> int:
    """Cores that this process may use: as many processes prepare frames."""
    return len(os.sched_getaffinity(0))


def _rendered(config: PoseConfig, cache: Path, device: torch.device) -> Frames:
    """Clips that niso renders itself, rendered when they are first asked for."""
    names, splits, images, poses = list[str](), list[str](), list[Tensor](), list[Tensor]()
    for split, count, length in (
        (TRAIN, config.clips, config.clip_frames),
        (TEST, config.test_clips, config.test_frames),
    ):
        recipe = repr((_VERSION, split, count, length, config.size))
        path = cache / f"{hashlib.sha256(recipe.encode()).hexdigest()[:16]}.safetensors"
        if not path.is_file():
            with _writable(cache), locked(cache, wait=True):
                if not path.is_file():
                    write_atomically(path, _render(count, length, config.size, split == TEST))
        try:
            stored = safetensors.torch.load_file(path)
            images += stored["images"]
            poses += stored["poses"]
        except (OSError, SafetensorError, KeyError) as error:
            raise InputError(f"{path} is damaged ({error}): remove it, and it is rendered again") from error
        names += [f"{'walk' if number % 2 else 'orbit'}/{split}{number:03}" for number in range(count)]
        splits += [split] * count

    def read(sequence: int, frame: int | None) -> Tensor:
        return images[sequence] if frame is None else images[sequence][frame]

    return Frames(names, splits, list(map(len, images)), list(poses), read, config.size, config.memory, device)


def _render(count: int, length: int, size: int, held_out: bool) -> bytes:
    with Bar("render", count * length, 0, visible=True, unit="frames") as bar:
        made = clips(count, length, size, held_out=held_out)
        bar.show(count * length, {})
    stacked = {name: torch.stack([getattr(clip, name) for clip in made]) for name in ("images", "poses")}
    return safetensors.torch.save(stacked)


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        problem = error.strerror or error
        raise InputError(f"cannot write to the cache {folder} ({problem}): set XDG_CACHE_HOME") from error
