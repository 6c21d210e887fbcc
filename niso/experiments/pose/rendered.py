"""Clips that niso renders itself: once, then kept in the user's cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from niso.cache import cached, caching
from niso.data.video.clips import Motion, clips
from niso.data.video.sequences import TEST, TRAIN
from niso.errors import InputError
from niso.experiments.pose.frames import Frames, Source, joined
from niso.experiments.pose.presets import PoseConfig
from niso.files.digests import digest
from niso.files.writing import write_atomically
from niso.training.progress import preparing

SHARED_VIEWS = 2
"""Rooms in which each motion of the clips is shown that are to test on and share motions."""

_VERSION = 1  # of the rendered clips: raise it when the code that renders them changes them


class Clips(NamedTuple):
    """Rendered clips that are wanted, see `niso.data.video.clips.clips`."""

    split: str
    number: int
    frames: int
    motions: tuple[Motion, ...]
    fields_of_view: tuple[float, float] | None
    rooms: int = 1


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


def rendered_clips(config: PoseConfig, training: str = TRAIN, tested: bool = True) -> Source:
    """Clips that niso renders itself, when they are first needed.

    Args:
        training: the split of the clips to train on.
        tested: whether there are clips to test on too.

    Raises:
        InputError: as in `open_shared`.
    """
    how = (config.motions, config.fields_of_view)
    train = Clips(TRAIN, config.clips, config.clip_frames, *how)
    source = _stored(train, config.size)._replace(splits=[training] * config.clips)
    if not tested:
        return source
    return joined(source, _stored(Clips(TEST, config.test_clips, config.test_frames, *how), config.size))


def _frames_of(wanted: Clips, config: PoseConfig, device: torch.device, mirrored: bool = False) -> Frames:
    return Frames(_stored(wanted, config.size), config.size, config.memory, device, mirrored)


def _stored(wanted: Clips, size: int) -> Source:
    """Clips from the cache, rendered when they are first needed."""
    split, count, length, motions, fields, rooms = wanted
    more = ((f"{rooms} rooms",) if rooms > 1 else ()) + ((f"fields of view {fields}",) if fields else ())
    recipe = repr((_VERSION, split, count, length, size, motions, *more))
    cache = cached("clips")
    path = cache / f"{digest(recipe.encode())}.safetensors"
    if not path.is_file():
        with caching(cache):
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
