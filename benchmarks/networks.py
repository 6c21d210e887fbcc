"""Layouts and norms of the convolutional networks: forward and backward of the released homNIST autoencoder.

Run: python -m benchmarks.networks
"""

from __future__ import annotations

from collections.abc import Callable

import tyro

from benchmarks.common import Options, compare, table, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import nn

from niso.networks import ConvConfig, ConvDecoder, ConvEncoder, InstanceNormSiLU
from niso.training.memory import keep_freed_memory

Norm = Callable[[int], nn.Module]
IMAGES = 32


def instance_norm(channels: int) -> nn.Module:
    """PyTorch's own instance norm, then SiLU."""
    return nn.Sequential(nn.InstanceNorm2d(channels, eps=1e-6, affine=True), nn.SiLU())


def group_norm(channels: int) -> nn.Module:
    """The same as a group norm with one channel a group."""
    return nn.Sequential(nn.GroupNorm(channels, channels, eps=1e-6), nn.SiLU())


NORMS: dict[str, Norm] = {
    "instance_norm": instance_norm,
    "group_norm": group_norm,
    "InstanceNormSiLU": InstanceNormSiLU,
}


def step(norm: Norm, layout: torch.memory_format, device: str, half: bool = False) -> Callable[[], None]:
    """Forward and backward of the autoencoder with another norm and layout."""
    torch.manual_seed(0)
    config = ConvConfig()
    network = nn.Sequential(ConvEncoder(config), ConvDecoder(config))
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, InstanceNormSiLU):
                setattr(parent, name, norm(child.weight.numel()))
    network = network.to(device).to(memory_format=layout)
    image = torch.rand(IMAGES, config.image_channels, *config.image_size, device=device)

    def run() -> None:
        x = image
        for part in network:
            with torch.autocast(device, torch.bfloat16, enabled=half):
                x = part(x)
        (x - image).abs().mean().backward()

    # The stem and the adapters leave channels-last tensors behind; a contiguous network has to undo that first.
    if layout == torch.contiguous_format:
        for part in network:
            for block in part.layers:
                block.register_forward_pre_hook(lambda _, inputs: inputs[0].contiguous())
    return run


def main(options: Options) -> None:
    """Time the variants in turns."""
    layouts = {"contiguous": torch.contiguous_format, "channels last": torch.channels_last}
    kept = options.device == "cpu" and keep_freed_memory()
    results = []
    for threads in options.threads:
        torch.set_num_threads(threads)
        calls = {
            f"{name}, {layout}": step(norm, layouts[layout], options.device)
            for name, norm in NORMS.items()
            for layout in layouts
        }
        calls["InstanceNormSiLU, channels last, bfloat16"] = step(
            InstanceNormSiLU, torch.channels_last, options.device, half=True
        )
        results.append({"threads": threads, "seconds": compare(calls, options)})
    rows = []
    for r in results:
        ours = r["seconds"]["InstanceNormSiLU, channels last"]["median"]
        for name, seconds in r["seconds"].items():
            milliseconds = (1e3 * seconds["median"], 1e3 * seconds["minimum"])
            rows.append((name, r["threads"], *milliseconds, seconds["median"] / ours))
    columns = ("norm and layout", "threads", "median, ms", "minimum, ms", "relative")
    table(f"Autoencoder, forward and backward, {options.device}", columns, rows)
    write("networks", options, {"kept_freed_memory": kept, "results": results})


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
