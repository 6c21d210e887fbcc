"""Prepared frames: frames prepared and read a second against the JPEG decoder's own rate, memory against the amount of
data, and ten million frames on paper.

Run: python -m benchmarks.frames
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import tyro

from benchmarks.common import Options, table, take_turns, write

import av  # isort: skip  # after benchmarks.common, which sets how threads wait
import numpy as np
import torch
from PIL import Image

from niso.data.squares import read_square
from niso.data.video import preparation as frame_preparation
from niso.data.video import prepared as frames
from niso.data.video.clips import clips
from niso.data.video.files import Video
from niso.data.video.posed_folders import frame_folder
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.sources import opened
from niso.training.ahead import Ahead

SOURCE = (540, 720)  # height and width of the frames that are prepared
READS = 500
BATCH, BATCHES = 16, 20
"""Of a timed series of reading."""
OPENED = (500, 3_000)
"""Sequences of the folders that are opened, of 30 frames each."""
PLANNED = {"sequences": 100_000, "frames": 10_000_000}

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


def decoded(content: bytes) -> None:
    """What the JPEG decoder alone does."""
    with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
        image.load()


def reading(folder: Path, options: Options) -> dict[str, dict[str, float]]:
    """Frames a second by the decoder alone, from memory, and as training reads them: batches, read ahead by threads.

    They take turns; by the wall's clock, so that what two threads wait for each other counts.
    """
    prepared = frames.open_frames(folder)
    source = Frames(opened(prepared), prepared.size, 0.0, torch.device("cpu"))
    generator, count = torch.Generator().manual_seed(0), BATCH * BATCHES
    sequence = torch.randint(len(prepared.names), (count,), generator=generator)
    frame = torch.randint(min(prepared.lengths), (count,), generator=generator)
    contents = []
    for one, other in zip(sequence.tolist(), frame.tolist(), strict=True):
        shard = (folder / f"{prepared.names[one]}.frames").read_bytes()
        records = np.frombuffer(shard[-prepared.lengths[one] * frames.RECORD.itemsize :], frames.RECORD)
        start, length, *_ = records[other].item()
        contents.append(shard[start : start + length])
    batches = [slice(BATCH * step, BATCH * (step + 1)) for step in range(BATCHES)]

    def decode(workers: int) -> None:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda batch: [decoded(content) for content in contents[batch]], batches))

    def read(workers: int) -> None:
        ahead = Ahead(lambda step: source.read(sequence[batches[step]], frame[batches[step]]), BATCHES, workers)
        for step in range(BATCHES):
            ahead(step)
        ahead.threads.shutdown()

    calls: dict[str, Callable[[], Any]] = {}
    for workers in (1, 2):
        calls |= {f"decoder, {workers}": lambda w=workers: decode(w), f"read, {workers}": lambda w=workers: read(w)}
    seconds = {name: median(values) for name, values in take_turns(calls, options).items()}
    return {
        f"{workers}": {
            "decoder_frames_a_second": count / seconds[f"decoder, {workers}"],
            "read_frames_a_second": count / seconds[f"read, {workers}"],
            "share": seconds[f"decoder, {workers}"] / seconds[f"read, {workers}"],
            "share_of_one_decoder": seconds["decoder, 1"] / seconds[f"read, {workers}"],
        }
        for workers in (1, 2)
    }


def parts_of_preparing(videos: Path, out: Path, options: Options) -> dict[str, float]:
    """Milliseconds of CPU a frame: of the decoder alone, of decoding, resizing and encoding, and of all of it."""
    paths = sorted(path for folder in videos.iterdir() for path in folder.iterdir())
    settings = frame_preparation.Preparation()
    images = [read_square(path, settings.size)[0] for path in paths]
    numbers = iter(range(10**6))
    calls = {
        "decoder": lambda: [decoded(path.read_bytes()) for path in paths],
        "decode_and_resize": lambda: [read_square(path, settings.size) for path in paths],
        "encode": lambda: [frame_preparation.jpeg(image, settings) for image in images],
        "prepare": lambda: frame_preparation.prepare(
            (frame_folder(path) for path in sorted(videos.iterdir())), out / str(next(numbers))
        ),
    }
    times = take_turns(calls, Options(device="cpu", repeats=options.repeats, cpu_time=True))
    return {name: 1e3 * median(values) / len(paths) for name, values in times.items()}


OPEN = """
import json, resource, sys, time
from pathlib import Path
import torch
from niso.data.video.prepared import open_frames
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.sources import opened
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
prepared = open_frames(Path(sys.argv[1]))
frames = Frames(opened(prepared), prepared.size, 0.0, torch.device("cpu"))
seconds = time.process_time() - start
print(json.dumps({"seconds": seconds, "mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}))
"""


def opening(prepared: Path, place: Path) -> dict[str, dict[str, float]]:
    """CPU seconds and MiB of opening folders of more and more sequences: links to one shard."""
    name, facts = next(iter(json.loads((prepared / frames.INDEX).read_text()).items()))
    results = {}
    for count in OPENED:
        folder = place / f"opened-{count}"
        folder.mkdir()
        for number in range(count):
            os.link(prepared / f"{name}.frames", folder / f"{number}.frames")
        (folder / frames.INDEX).write_text(json.dumps({str(number): facts for number in range(count)}))
        (folder / "parameters.json").write_text((prepared / "parameters.json").read_text())
        done = subprocess.run([sys.executable, "-c", OPEN, str(folder)], check=True, capture_output=True, text=True)
        results[str(count)] = {"frames": count * facts["frames"], **json.loads(done.stdout)}
    return results


def planned(opened: dict[str, dict[str, float]], prepare_ms: float, bytes_a_frame: float) -> dict[str, float]:
    """Ten million frames in 100,000 sequences, from the slopes between the two largest folders that were opened.

    All that is kept of a frame in memory is its pose; the rest of the slope is of sequences.
    """
    small, large = (opened[str(count)] for count in OPENED[-2:])
    sequences, held = OPENED[-1] - OPENED[-2], large["frames"] - small["frames"]
    poses = 128.0  # bytes of a frame: 4 × 4 in float64
    rest = max(0.0, (large["mib"] - small["mib"]) * 2**20 - poses * held) / sequences
    return {
        "disk_gb": PLANNED["frames"] * bytes_a_frame / 1e9,
        "prepare_hours_a_core": PLANNED["frames"] * prepare_ms / 3.6e6,
        "open_cpu_seconds": PLANNED["sequences"] * (large["seconds"] - small["seconds"]) / sequences,
        "memory_gib": (PLANNED["frames"] * poses + PLANNED["sequences"] * rest) / 2**30,
        "bytes_a_sequence": rest,
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
        lengths = [60, 120, 240]
        for length in lengths:
            make_video_file(folder / f"{length}.mp4", folder / "videos" / "0", length)
        start = perf_counter()
        frame_preparation.prepare([Video("file", folder / "120.mp4")], folder / "prepared-file")
        decoding = perf_counter() - start
        peaks = peak_memory(folder, folder / "prepared-again", [2, 4, 8], lengths)
        rates = reading(folder / "prepared", options)
        parts = parts_of_preparing(folder / "videos", folder / "timed", options)
        opened = opening(folder / "prepared", folder)
        index = json.loads((folder / "prepared" / frames.INDEX).read_text())
    bytes_a_frame = sum(one["bytes"] for one in index.values()) / sum(one["frames"] for one in index.values())
    plan = planned(opened, parts["prepare"], bytes_a_frame)
    results = {
        "frames": 30 * videos,
        "source_pixels": list(SOURCE),
        "render_and_write_ms_a_frame": 1e3 * rendering / (30 * videos),
        "prepare_ms_a_frame": 1e3 * preparing / (30 * videos),
        "decode_and_prepare_ms_a_frame": 1e3 * decoding / 120,
        "random_access": access,
        "peak_memory_mib": peaks,
        "reading": rates,
        "preparing_cpu_ms_a_frame": parts,
        "opening": opened,
        "bytes_a_frame": bytes_a_frame,
        "planned": {**PLANNED, **plan},
    }
    reads = ((f"read: {name}", value) for name, value in access.items() if name != "reads")
    rows = [
        ("prepare a frame of a folder", results["prepare_ms_a_frame"]),
        ("decode and prepare one of a video file", results["decode_and_prepare_ms_a_frame"]),
        *reads,
    ]
    table("Prepared frames", ("what", "ms"), rows)
    table("Peak memory", ("prepared", "MiB"), list(peaks.items()))
    rows = [(workers, *(f"{v:.0%}" if "share" in name else v for name, v in r.items())) for workers, r in rates.items()]
    columns = ("threads", "decoder alone", "read", "share", "share of one thread's decoder")
    table("Prepared frames a second, from memory and as training reads them", columns, rows)
    table("CPU milliseconds of preparing a frame", ("part", "ms"), list(parts.items()))
    rows = [(int(count), int(r["frames"]), r["seconds"], r["mib"]) for count, r in opened.items()]
    table("Opening a prepared folder", ("sequences", "frames", "CPU seconds", "MiB"), rows)
    table("Planned on paper from these: 10 million frames in 100,000 sequences", ("what", "value"), list(plan.items()))
    write("frames", options, results)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
