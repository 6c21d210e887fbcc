"""Prepared frames: seconds of preparation, random access to a frame, and memory against the amount of data.

Run: python -m benchmarks.frames
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import tyro

from benchmarks.common import Options, table, write

import numpy as np  # isort: skip  # after benchmarks.common, which sets how threads wait
import torch
from PIL import Image

from niso.data import frame_preparation, frames
from niso.data.clips import clips
from niso.data.posed_folders import frame_folder

SOURCE = (540, 720)  # height and width of the frames that are prepared
READS = 3_000

MEMORY = """
import json, resource, sys
from pathlib import Path
from niso.data.frame_preparation import prepare
from niso.data.posed_folders import frame_folder
folders = sorted(Path(sys.argv[1]).iterdir())
videos = (frame_folder(folders[n % len(folders)], f"again/{n}") for n in range(int(sys.argv[3])))
prepare(videos, Path(sys.argv[2]))
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
"""


def make_videos(folder: Path, count: int) -> None:
    """Rendered clips, enlarged, as folders of JPEG files."""
    for number, clip in enumerate(clips(count, frames=30)):
        (folder / str(number)).mkdir(parents=True)
        for frame, image in enumerate(clip.images):
            picture = Image.fromarray(image.permute(1, 2, 0).numpy()).resize(SOURCE[::-1], Image.Resampling.BICUBIC)
            picture.save(folder / str(number) / f"{frame:03}.jpg", quality=90)


def random_access(folder: Path) -> dict[str, float]:
    """Milliseconds to read and decode one frame anywhere: opening, reading, JPEG, tensor."""
    prepared = frames.open_frames(folder)
    generator = np.random.default_rng(0)
    seconds = []
    for _ in range(READS):
        sequence = int(generator.integers(len(prepared.names)))
        frame = int(generator.integers(prepared.lengths[sequence]))
        start = perf_counter()
        prepared.image(sequence, frame)
        seconds.append(perf_counter() - start)
    milliseconds = 1e3 * np.array(seconds)
    return {
        "reads": READS,
        "median_ms": float(np.median(milliseconds)),
        "mean_ms": float(milliseconds.mean()),
        "percentile_99_ms": float(np.percentile(milliseconds, 99)),
        "minimum_ms": float(milliseconds.min()),
    }


def memory(videos: Path, out: Path, count: int) -> float:
    """Peak resident MiB of a process that prepares so many videos."""
    command = [sys.executable, "-c", MEMORY, str(videos), str(out), str(count)]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main(videos: int = 4, options: Options = Options(device="cpu", threads=(1,))) -> None:  # noqa: B008  # frozen
    """Prepare rendered videos and read them back.

    Args:
        videos: how many different ones, of 30 frames each.
        options: of every benchmark.
    """
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        start = perf_counter()
        make_videos(folder / "videos", videos)
        rendering = perf_counter() - start
        start = perf_counter()
        sequences = (frame_folder(path) for path in sorted((folder / "videos").iterdir()))
        frame_preparation.prepare(sequences, folder / "prepared")
        preparing = perf_counter() - start
        access = random_access(folder / "prepared")
        peaks = {count: memory(folder / "videos", folder / f"prepared-{count}", count) for count in (4, 16, 64)}
    results = {
        "frames": 30 * videos,
        "source_pixels": list(SOURCE),
        "render_and_write_ms_a_frame": 1e3 * rendering / (30 * videos),
        "prepare_ms_a_frame": 1e3 * preparing / (30 * videos),
        "random_access": access,
        "peak_memory_mib": {f"{count} videos, {30 * count} frames": peak for count, peak in peaks.items()},
    }
    reads = ((f"read: {name}", value) for name, value in access.items() if name != "reads")
    rows = [("prepare a frame", results["prepare_ms_a_frame"]), *reads]
    table("Prepared frames", ("what", "ms"), rows)
    table("Peak memory", ("prepared", "MiB"), list(results["peak_memory_mib"].items()))
    write("frames", options, results)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
