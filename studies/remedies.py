"""Remedies for plain pairs of homNIST, each beside `none`. Runs and records one of them.

    python -m studies.remedies average --data-dir MNIST
    python -m studies.remedies centred --network preset --steps 1500 --data-dir MNIST

Runs lie under runs/remedies/; records go to results/homnist-remedies/ and results/homnist-remedies-preset/. What is no
setting of niso is done here, by hooks and classes of its own, so that it needs no place in the library before it is
shown to help.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from niso.checks import Scalar
from niso.cli.main import main as niso
from niso.methods import METHODS
from niso.methods.isometry import Isometry
from niso.methods.method import Networks
from niso.model import NeuralIsometry
from niso.objective import IsometryObjective
from niso.runs.record import write_record
from niso.training.run import Run

COMMON = "--preset small --method niso --speed exact"
ONE_LEVEL = (
    "--rank 32 --conv.latent-channels 32 --conv.channels 64 --conv.patch 4 --conv.stem-channels 64 "
    "--learning-rate 2e-3 --head.steps 800"
)
NETWORKS = {
    "one-level": (ONE_LEVEL, Path("results/homnist-remedies")),
    "preset": ("", Path("results/homnist-remedies-preset")),
}
"""Options of `niso run`, and the folder of the records: networks of one level with a short head, and the preset's."""


def parameters(optimizer: Optimizer) -> list[Tensor]:
    """All that an optimiser trains."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def clip(norm: float = 1.0) -> RemovableHandle:
    """Clip the gradient of every step to this norm."""

    def before(optimizer: Optimizer, *_: object) -> None:
        nn.utils.clip_grad_norm_(parameters(optimizer), norm)

    return register_optimizer_step_pre_hook(before)


class Average:
    """Replaces the weights of the pre-training, at its end, by their exponential moving average."""

    def __init__(self, steps: int, decay: float = 0.999) -> None:
        self.steps, self.decay = steps, decay
        self.done, self.means = 0, list[Tensor]()
        self.handle = register_optimizer_step_post_hook(self)

    @torch.no_grad()
    def __call__(self, optimizer: Optimizer, *_: object) -> None:
        weights = parameters(optimizer)
        self.done += 1
        self.means = self.means or copy.deepcopy([weight.detach() for weight in weights])
        if self.done <= self.steps:
            torch._foreach_lerp_(self.means, weights, 1 - self.decay)
        if self.done == self.steps:
            torch._foreach_copy_(weights, self.means)


class GrowingObjective(IsometryObjective):
    """β grows from 0, in proportion to the steps."""

    def multiplicity_at(self, progress: Scalar) -> Scalar:
        return self.multiplicity * progress


class Growing(Isometry):
    """Plain pairs with a β that grows."""

    def objective(self) -> nn.Module:
        config = self.config
        return GrowingObjective(self.model, config.equivariance_weight, config.multiplicity, config.multiplicity_decay)


class Centring(nn.Module):
    """Takes the mean of a batch from latents; after training, the moving average of such means."""

    mean: Tensor

    def __init__(self, points: int, channels: int, momentum: float = 0.01) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(points, channels))

    def forward(self, z: Float[Tensor, "batch points channels"]) -> Float[Tensor, "batch points channels"]:
        if not self.training:
            return z - self.mean
        mean = z.mean(0)
        self.mean.lerp_(mean.detach().to(self.mean.dtype), self.momentum)
        return z - mean


class Centred(Isometry):
    """Plain pairs whose latents, of both views, are centred before maps are solved and losses are computed."""

    def build(self, networks: Networks) -> NeuralIsometry:
        centring = Centring(networks.points, networks.channels)
        return super().build(networks._replace(encoder=nn.Sequential(networks.encoder, centring)))


def replace_pairs(method: type[Isometry]) -> None:
    """Let this method be trained where plain pairs are asked for."""
    METHODS["niso"] = f"{__name__}.{method.__name__}"


REMEDIES: dict[str, tuple[str, Callable[[int], object]]] = {
    "none": ("", lambda steps: None),
    "average": ("", Average),
    "clipping": ("", lambda steps: clip()),
    "batch-64": ("--batch-size 64", lambda steps: None),
    "rank-16-channels-64": ("--rank 16 --conv.latent-channels 64", lambda steps: None),
    "growing-multiplicity": ("--multiplicity 0.1 --multiplicity-decay 1", lambda steps: replace_pairs(Growing)),
    "constant-multiplicity": ("--multiplicity 0.1 --multiplicity-decay 1", lambda steps: None),
    "whitened": ("--whitened", lambda steps: None),
    "centred": ("", lambda steps: replace_pairs(Centred)),
}
"""Options of `niso run`, and what is done before it, given its steps. `constant-multiplicity` has the published β."""
FEWER = {"batch-64": 4}
"""Remedies that take so many times fewer steps, of as many pairs in all."""


def main() -> None:
    """Parse the arguments, run and record one remedy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("remedy", choices=REMEDIES)
    parser.add_argument("--network", choices=NETWORKS, default="one-level")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--steps", type=int, default=3_000, help="steps of pre-training on 16 pairs")
    options, more = parser.parse_known_args()  # what is left goes to niso run
    run = Run(Path("runs/remedies") / f"{options.network}-{options.remedy}-seed{options.seed}")
    if run.path.exists():
        parser.error(f"{run.path} is there already: remove it first (remedies are not resumed)")
    flags, start = REMEDIES[options.remedy]
    network, records = NETWORKS[options.network]
    steps = options.steps // FEWER.get(options.remedy, 1)
    start(steps)
    words = f"{COMMON} {network} --steps {steps} --warmup-steps {steps // 10} {flags}".split()
    try:
        niso(["run", "homnist", *words, *more, "--seed", options.seed, "--out", str(run.path)])
    except SystemExit as end:
        if end.code:
            raise  # its exit status is ours
    write_record(run, records / options.remedy, remedy=options.remedy)


if __name__ == "__main__":
    main()
