"""What finer maps of shapes cost, where larger squares keep the latent grid as it is.

For the networks of the presets: forward and backward of encoder and decoder for a batch of pairs, with squares read and
written by torch's pixel shuffles and by niso's. Beside it the time to read the maps of a batch that are stored, and the
time to draw as many by Möbius transformations of stored base maps instead.

Run: python -m studies.shape_grids --cpu-time --threads 1
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import tyro

from benchmarks.common import Options, compare, table, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import nn

from niso.experiments.shapes.presets import PRESETS
from niso.geometry.mobius import MobiusTransformations
from niso.networks import ConvDecoder, ConvEncoder
from niso.networks.patches import FromPatches, ToPatches

VIEWS, CHANNELS, STORED = 32, 16, 64
GRIDS = (
    ("quick", (16, 32), 2),
    ("quick", (48, 96), 6),
    ("quick", (96, 192), 12),
    ("small", (24, 48), 2),
    ("small", (48, 96), 4),
    ("small", (96, 192), 8),
)
"""Preset, size of the maps, side of the squares."""


def step(preset: str, size: tuple[int, int], patch: int, shuffled: bool) -> Callable[[], None]:
    """Forward and backward of the autoencoder of a preset; with torch's pixel shuffles or niso's."""
    torch.manual_seed(0)
    config = replace(PRESETS[preset].conv, image_size=size, image_channels=CHANNELS, patch=patch)
    network = nn.Sequential(ConvEncoder(config), ConvDecoder(config))
    if shuffled:
        for part in network:
            layers = part.get_submodule("layers")
            assert isinstance(layers, nn.Sequential)
            for place, layer in enumerate(layers):
                if isinstance(layer, ToPatches):
                    layers[place] = nn.PixelUnshuffle(patch)
                if isinstance(layer, FromPatches):
                    layers[place] = nn.PixelShuffle(patch)
    maps = torch.rand(VIEWS, CHANNELS, *size) * 2 - 1

    def run() -> None:
        (network(maps) - maps).abs().mean().backward()

    return run


def data(size: tuple[int, int], drawn: bool) -> Callable[[], None]:
    """A batch of maps from memory, in single precision; as they are stored, or of stored ones transformed."""
    stored = torch.rand(STORED, CHANNELS, *size).half()
    action = MobiusTransformations(2.0, "poles")

    def run() -> None:
        maps = stored[torch.randint(STORED, (VIEWS,))].float().clamp(-1, 1)
        if drawn:
            action.act(maps, action.sample(VIEWS))

    return run


def main(options: Options) -> None:
    """Time all in turns, on the CPU."""
    options = replace(options, device="cpu")
    results, rows = [], []
    for threads in options.threads:
        torch.set_num_threads(threads)
        for preset, size, patch in GRIDS:
            calls = {
                "torch": step(preset, size, patch, shuffled=True),
                "niso": step(preset, size, patch, shuffled=False),
                "stored": data(size, drawn=False),
                "drawn": data(size, drawn=True),
            }
            seconds = compare(calls, options)
            results.append({"threads": threads, "preset": preset, "size": size, "patch": patch, "seconds": seconds})
            milliseconds = (1e3 * seconds[name]["median"] for name in calls)
            rows.append((preset, "×".join(map(str, size)), patch, threads, *milliseconds))
    columns = ("preset", "maps", "square", "threads", "torch's shuffles", "niso's", "stored maps", "drawn maps")
    table("Milliseconds of a step's networks, and of its data", columns, rows)
    write("shape_grids", options, {"results": results})


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
