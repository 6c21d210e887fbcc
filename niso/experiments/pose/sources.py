"""Where the frames of the pose experiment come from."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from niso.cache import cached, caching
from niso.data.prepared import PARAMETERS, REFUSED
from niso.data.video import co3d
from niso.data.video.copies import copies_of
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.prepared import PreparedFrames, open_frames
from niso.data.video.sequences import TEST
from niso.data.workers import cores
from niso.errors import InputError, counted
from niso.experiments.pose.frames import RENDERED, Frames, Source, joined
from niso.experiments.pose.presets import PoseConfig
from niso.experiments.pose.rendered import rendered_clips
from niso.files.digests import digest
from niso.messages import say
from niso.training.progress import counting, preparing


def open_sequences(config: PoseConfig, data_dir: Path | None, device: torch.device) -> Frames:
    """The data of a run: a prepared folder, CO3Dv2 in its original layout, or, without a folder, the rendered clips.

    CO3Dv2 is first prepared in the user's cache, where unchanged files are prepared only once. With `config.rendered`,
    the rendered clips to train on are added to the folder's sequences, as the split `RENDERED`.

    Raises:
        InputError: the folder is neither, is damaged, or cannot be prepared; or the cache cannot be written to.
    """
    source = rendered_clips(config) if data_dir is None else _read(config, data_dir)
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


def _read(config: PoseConfig, data_dir: Path) -> Source:
    """The sequences of a folder, and rendered clips if configured: also clips to test on if the folder has no poses."""
    if not data_dir.is_dir():
        raise InputError(f"--data-dir {data_dir} is not a folder")
    if not (data_dir / PARAMETERS).is_file():
        if not any(data_dir.glob(f"*/{co3d.SEQUENCES}")):
            raise InputError(
                f"--data-dir {data_dir} holds neither prepared frames ({PARAMETERS}) nor CO3Dv2 "
                f"(<category>/{co3d.SEQUENCES}): prepare other footage by `niso data prepare video {data_dir} OUT`"
            )
        source = opened(_prepared(config, data_dir))
    else:
        source = opened(open_frames(data_dir))
    if not config.rendered:
        return source
    posed = any(split == TEST and poses is not None for split, poses in zip(source.splits, source.poses, strict=True))
    return joined(source, rendered_clips(config, RENDERED, tested=not posed))


def opened(prepared: PreparedFrames) -> Source:
    """The sequences of a prepared folder; those whose poses are not all known have none."""
    described = [prepared.described(sequence) for sequence in range(len(prepared.names))]
    stored, copies = [poses for poses, _ in described], copies_of(prepared.names, [words for _, words in described])

    def read(sequence: int, frame: int | None) -> Tensor:
        return prepared.clip(sequence).images if frame is None else prepared.image(sequence, frame)

    known = [poses if poses.isfinite().all() else None for poses in stored]
    sequences = zip(prepared.names, prepared.lengths, prepared.sizes, strict=True)
    content = digest(*(repr(facts).encode() for facts in sequences), *(poses.numpy().tobytes() for poses in stored))
    return Source(prepared.names, prepared.splits, prepared.lengths, known, read, content, copies)


def _prepared(config: PoseConfig, root: Path) -> PreparedFrames:
    """CO3Dv2, prepared in the cache for this split and size."""
    selection = (
        co3d.read_split(root, config.split_file)
        if config.split_file
        else co3d.select(root, config.quality, config.held_out)
    )
    preparation = Preparation(size=config.size)
    recipe = repr((str(root.resolve()), preparation, sorted(selection.splits.items())))
    folder = cached("frames") / digest(recipe.encode())
    with caching(folder):
        with preparing(folder, "sequences") as show:
            total = len(selection.splits)
            show("prepare", 0, total)
            sequences, out = co3d.sequences(root, selection), folder / "prepared"
            outcome = prepare(sequences, out, cores(), preparation, counting(show, total), selection.draw)
        if refused := len(outcome.refused):
            say(f"{counted(refused, 'sequence')} of {root} cannot be used, and why is in {out / REFUSED}")
        return open_frames(out)  # before another process looks through it again
