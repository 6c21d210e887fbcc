"""One training step of the homNIST autoencoder (released size, 16 pairs) and the torus, and the machine's rates.

Run: python -m benchmarks.step
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.common import Clock, Options, compare, table, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import niso
from niso.networks import ConvConfig, ConvDecoder, ConvEncoder
from niso.objective import IsometryObjective
from niso.training.compilation import compile_networks
from niso.training.memory import keep_freed_memory

Shape = tuple[int, int, int, int, int]  # input channels, output channels, kernel side, image height and width
TORUS_SIDES = (8, 16)
PARTS = ("encoder", "decoder", "spectral", "backward", "optimizer")


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


class Step:
    """A training step with the time of its parts."""

    def __init__(self, model: niso.NeuralIsometry, pair: tuple[Tensor, Tensor], options: StepOptions) -> None:
        self.clock = Clock(options.device, options.cpu_time)
        self.model, self.pair, self.options = IsometryObjective(model, 0.5, 0.1), pair, options
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=1e-4, fused=True)
        for part in ("encoder", "decoder") if options.compile != "step" else ():
            network = getattr(model, part)
            network.register_forward_pre_hook(lambda *_: setattr(self, "start", self.clock.now()))
            network.register_forward_hook(lambda *_, part=part: self.clock.add(part, self.clock.now() - self.start))

    def __call__(self) -> None:
        clock, times = self.clock, self.clock.seconds
        begin = clock.now()
        with torch.autocast(self.options.device, torch.bfloat16, enabled=self.options.bfloat16):
            loss = self.model(self.pair, 0.0)["loss"]
        forward = clock.now()
        loss.backward()
        backward = clock.now()
        self.optimizer.step()
        self.optimizer.zero_grad()
        end = clock.now()
        if self.options.compile != "step":
            clock.add("spectral", forward - begin - times["encoder"][-1] - times["decoder"][-1])
        clock.add("backward", backward - forward)
        clock.add("optimizer", end - backward)
        clock.add("step", end - begin)

    def measure(self, repeats: int) -> dict[str, Any]:
        gflop = self.count() / 1e9  # of the step that is not compiled
        if self.options.compile == "step":
            self.model.compile()
        elif self.options.compile == "networks":
            compile_networks(self.model)
        for _ in range(3):
            self()
        self.clock.seconds.clear()
        for _ in range(repeats):
            self()
        minimum = min(self.clock.seconds["step"])
        return {"seconds": self.clock.medians(), "minimum": minimum, "gflop": gflop}

    def count(self) -> int:
        """Floating-point operations of a step that convolutions and matrix products make."""
        with FlopCounterMode(display=False) as counter:
            self()
        return counter.get_total_flops()


def homnist(options: StepOptions) -> Step:
    """The released homNIST autoencoder on random images."""
    config = ConvConfig()
    torch.manual_seed(0)
    networks = [ConvEncoder(config), ConvDecoder(config)]
    model = niso.NeuralIsometry(*networks, niso.LearnedSpectrum(config.points, rank=32)).to(options.device)
    shape = (options.pairs, config.image_channels, *config.image_size)
    pair = torch.rand(shape, device=options.device), torch.rand(shape, device=options.device)
    return Step(model, pair, options)


def torus(options: StepOptions, side: int, channels: int = 258) -> Step:
    """The full-rank torus: identity networks, one observation of 86 colour crops and its shift."""
    torch.manual_seed(0)
    spectrum = niso.LearnedSpectrum(side**2, rank=side**2)
    model = niso.NeuralIsometry(nn.Identity(), nn.Identity(), spectrum).to(options.device)
    x = torch.randn(1, side, side, channels, device=options.device)
    return Step(model, (x.flatten(1, 2), x.roll((1, 2), (1, 2)).flatten(1, 2)), options)


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
        step = homnist(options).measure(options.repeats)
        achieved = step["gflop"] / step["seconds"]["step"]
        step |= {"gflop_per_second": achieved}
        step |= {f"share_of_{kind}": achieved / rate[kind] for kind in ("matmul", "conv")}
        small = {f"torus {n}×{n}": torus(options, n).measure(10 * options.repeats) for n in TORUS_SIDES}
        results.append({"threads": threads, "gflop_per_second": rate, "homnist": step, **small})

    report(results, f"{options.device}, {'bfloat16' if options.bfloat16 else 'float32'}")
    write("step", options, {"kept_freed_memory": kept, "results": results})


if __name__ == "__main__":
    import tyro  # machines that run parts of this need not have it

    main(tyro.cli(StepOptions, description=__doc__))
