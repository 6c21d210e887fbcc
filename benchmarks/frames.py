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

import av  # isort: skip  # after benchmarks.common, which sets how threads wait
import numpy as np
import torch
from PIL import Image

from niso.data.video import preparation as frame_preparation
from niso.data.video import prepared as frames
from niso.data.video.clips import clips
from niso.data.video.files import Video
from niso.data.video.posed_folders import frame_folder

SOURCE = (540, 720)  # height and width of the frames that are prepared
READS = 3_000

PEAKS = """
import json, resource, sys
from pathlib import Path
from niso.data.video.files import Video
from niso.data.video.posed_folders import frame_folder
from niso.data.video.preparation import prepare
source, out, folders, files = *map(Path, sys.argv[1:3]), *map(json.loads, sys.argv[3:])
clips, peaks = sorted((source / "videos").iterdir()), {}
def note(name):
    peaks[name] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
for count in folders:
    prepare((frame_folder(clips[n % len(clips)], f"again/{n}") for n in range(count)), out / f"folders-{count}")
    note(f"{count} folders, {30 * count} frames")
for count in files:
    prepare([Video("one", source / f"{count}.mp4")], out / f"file-{count}")
    note(f"a video file, {count} frames")
print(json.dumps(peaks))
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


def make_video_file(path: Path, source: Path, frames: int) -> None:
    """A folder's frames, again and again, as an H.264 file."""
    pictures = [Image.open(image).convert("RGB") for image in sorted(source.iterdir())]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = *SOURCE[::-1], "yuv420p"
        for frame in range(frames):
            container.mux(stream.encode(av.VideoFrame.from_image(pictures[frame % len(pictures)])))
        container.mux(stream.encode())


def peak_memory(given: Path, out: Path, folders: list[int], files: list[int]) -> dict[str, float]:
    """Peak resident MiB of a process, after each preparation, from the smallest to the largest: it can only grow."""
    command = [sys.executable, "-c", PEAKS, str(given), str(out), json.dumps(folders), json.dumps(files)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


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
        lengths = [120, 480, 1920]
        for length in lengths:
            make_video_file(folder / f"{length}.mp4", folder / "videos" / "0", length)
        start = perf_counter()
        frame_preparation.prepare([Video("file", folder / "480.mp4")], folder / "prepared-file")
        decoding = perf_counter() - start
        peaks = peak_memory(folder, folder / "prepared-again", [4, 16, 64], lengths)
    results = {
        "frames": 30 * videos,
        "source_pixels": list(SOURCE),
        "render_and_write_ms_a_frame": 1e3 * rendering / (30 * videos),
        "prepare_ms_a_frame": 1e3 * preparing / (30 * videos),
        "decode_and_prepare_ms_a_frame": 1e3 * decoding / 480,
        "random_access": access,
        "peak_memory_mib": peaks,
    }
    reads = ((f"read: {name}", value) for name, value in access.items() if name != "reads")
    rows = [
        ("prepare a frame of a folder", results["prepare_ms_a_frame"]),
        ("decode and prepare one of a video file", results["decode_and_prepare_ms_a_frame"]),
        *reads,
    ]
    table("Prepared frames", ("what", "ms"), rows)
    table("Peak memory", ("prepared", "MiB"), list(peaks.items()))
    write("frames", options, results)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
