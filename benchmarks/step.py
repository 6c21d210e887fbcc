"""One training step of the homNIST autoencoder (released size, 16 pairs) and the torus, and the machine's rates.

Run: python -m benchmarks.step
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.common import Clock, Options, compare, table, write
from benchmarks.steps import PARTS, Size, Step, operations

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor, nn

from niso.networks import ConvConfig, ConvDecoder, ConvEncoder
from niso.training.memory import keep_freed_memory
from niso.training.speed import Way

Shape = tuple[int, int, int, int, int]  # input channels, output channels, kernel side, image height and width
TORUS_SIDES = (8, 16)


@dataclass(frozen=True)
class StepOptions(Options):
    """Options of the step benchmark."""

    pairs: int = 16
    """Pairs of images in a batch."""
    bfloat16: bool = False
    """Run the networks under bfloat16 autocast."""
    compile: Literal["nothing", "networks", "step"] = "nothing"
    """What torch.compile compiles (CPU: needs a C++ compiler): encoder and decoder, or everything up to the loss and
    its gradients; of that, the forward pass has no parts."""
    keep_memory: bool = True
    """Let the C library reuse freed memory (niso.training.memory.keep_freed_memory)."""


def measure(size: Size, options: StepOptions, threads: int, repeats: int) -> dict[str, Any]:
    """Median seconds of a step and its parts, and the arithmetic of the step that is not compiled."""
    phase = size.phase(torch.device(options.device))
    gflop = sum(operations(Step(phase, Way(threads=threads))).values()) / 1e9
    precision = "bf16-mixed" if options.bfloat16 else "32-true"
    way = Way(precision, options.compile != "nothing", threads, options.compile == "step")
    clock = Clock(options.device, options.cpu_time)
    seconds = Step(phase, way, clock).timed(repeats)
    return {"seconds": seconds, "minimum": min(clock.seconds["step"]), "gflop": gflop}


def convolutions(config: ConvConfig) -> dict[Shape, int]:
    """The convolutions of the networks, and how often each occurs."""
    counts: dict[Shape, int] = {}

    def note(layer: nn.Conv2d, inputs: tuple[Tensor, ...], _: Tensor) -> None:
        key = (layer.in_channels, layer.out_channels, layer.kernel_size[0], *inputs[0].shape[-2:])
        counts[key] = counts.get(key, 0) + 1

    network = nn.Sequential(ConvEncoder(config), ConvDecoder(config))
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(note)
    with torch.no_grad():
        network(torch.zeros(1, config.image_channels, *config.image_size))
    return counts


def rates(options: StepOptions) -> dict[str, Any]:
    """GFLOP/s of a large matrix product and of the networks' 3×3 convolutions, forward and backward."""
    factory: dict[str, Any] = {
        "device": options.device,
        "dtype": torch.bfloat16 if options.bfloat16 else torch.float32,
    }
    by_shape, conv = conv_rate(ConvConfig(), 2 * options.pairs, options, factory)
    return {"matmul": matmul_rate(2048, options, factory), "conv_by_shape": by_shape, "conv": conv}


def matmul_rate(side: int, options: Options, factory: dict[str, Any]) -> float:
    """GFLOP/s of the product of two square matrices."""
    a, b = torch.randn(side, side, **factory), torch.randn(side, side, **factory)
    seconds = compare({"matmul": lambda: a @ b}, options)["matmul"]["median"]
    return 2 * side**3 / seconds / 1e9


def conv_rate(
    config: ConvConfig, images: int, options: Options, factory: dict[str, Any]
) -> tuple[dict[str, float], float]:
    """GFLOP/s of the 3×3 convolutions of the networks, forward and backward: by shape, and of all together."""
    by_shape: dict[str, float] = {}
    total = work = 0.0
    for (inputs, outputs, kernel, height, width), times in convolutions(config).items():
        if kernel == 1:
            continue
        layer = nn.Conv2d(inputs, outputs, kernel, padding=1, **factory).to(memory_format=torch.channels_last)
        x = torch.randn(images, inputs, height, width, **factory)
        x = x.contiguous(memory_format=torch.channels_last).requires_grad_()
        gradient = torch.randn_like(layer(x))
        flops = 3 * 2 * gradient.numel() * inputs * kernel**2
        call = {"conv": lambda layer=layer, x=x, g=gradient: layer(x).backward(g)}
        seconds = compare(call, options)["conv"]["median"]
        by_shape[f"{inputs} to {outputs}, {height}×{width}"] = flops / seconds / 1e9
        total, work = total + times * seconds, work + times * flops
    return by_shape, work / total / 1e9


def report(results: list[dict[str, Any]], where: str) -> None:
    """Print the rates and the times."""
    rows: list[tuple[Any, ...]] = []
    for r in results:
        step, rate = r["homnist"], r["gflop_per_second"]
        shares = (step["gflop_per_second"], step["share_of_matmul"], step["share_of_conv"])
        rows.append((str(r["threads"]), rate["matmul"], rate["conv"], *shares))
    columns = ("threads", "matmul", "3×3 conv", "homNIST step", "/ matmul", "/ conv")
    table(f"GFLOP/s, {where}", columns, rows)
    rows = []
    for name in ("homnist", *(f"torus {n}×{n}" for n in TORUS_SIDES)):
        for r in results:
            seconds = r[name]["seconds"]
            parts = (1e3 * seconds[part] if part in seconds else "—" for part in PARTS)
            rows.append((name, r["threads"], 1e3 * seconds["step"], 1e3 * r[name]["minimum"], *parts))
    columns = ("step", "threads", "total", "minimum", *PARTS)
    table(f"Median milliseconds, {where}", columns, rows)


def main(options: StepOptions) -> None:
    """Measure the rates, then the steps."""
    kept = options.device == "cpu" and options.keep_memory and keep_freed_memory()
    results = []
    for threads in options.threads:
        torch.set_num_threads(threads)
        rate = rates(options)
        step = measure(Size(ConvConfig(), 32, options.pairs), options, threads, options.repeats)
        achieved = step["gflop"] / step["seconds"]["step"]
        step |= {"gflop_per_second": achieved}
        step |= {f"share_of_{kind}": achieved / rate[kind] for kind in ("matmul", "conv")}
        small = {
            f"torus {n}×{n}": measure(Size(None, n**2, 1), options, threads, 10 * options.repeats) for n in TORUS_SIDES
        }
        results.append({"threads": threads, "gflop_per_second": rate, "homnist": step, **small})

    report(results, f"{options.device}, {'bfloat16' if options.bfloat16 else 'float32'}")
    write("step", options, {"kept_freed_memory": kept, "results": results})


if __name__ == "__main__":
    import tyro  # machines that run parts of this need not have it

    main(tyro.cli(StepOptions, description=__doc__))
