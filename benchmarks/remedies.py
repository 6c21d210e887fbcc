"""Remedies for plain pairs that published runs lack, each tried alone on homNIST. Runs and records one of them.

    python -m benchmarks.remedies average --data-dir MNIST

Runs lie under runs/remedies/; records go to results/homnist-remedies/. What is no setting of niso is done here, by
hooks of the optimiser, so that it needs no place in the library before it is shown to help.
"""

from __future__ import annotations

import argparse
import copy
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from niso.cli.main import main as niso
from niso.methods import METHODS
from niso.methods.isometry import Isometry
from niso.model import IsometryObjective

STEPS = 3_000
COMMON = (
    "--preset small --method niso --conv.channels 64 --conv.patch 4 --conv.stem-channels 64 --speed exact "
    "--learning-rate 2e-3 --head.steps 800"
)


def parameters(optimizer: Optimizer) -> list[Tensor]:
    """All that an optimiser trains."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def clip(norm: float = 1.0) -> None:
    """Clip the gradient of every step to this norm."""

    def before(optimizer: Optimizer, *_: object) -> None:
        nn.utils.clip_grad_norm_(parameters(optimizer), norm)

    register_optimizer_step_pre_hook(before)


class Average:
    """Replaces the weights of the pre-training, at its end, by their exponential moving average."""

    def __init__(self, steps: int, decay: float = 0.999) -> None:
        self.steps, self.decay = steps, decay
        self.done, self.means = 0, list[Tensor]()
        register_optimizer_step_post_hook(self)

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

    def multiplicity_at(self, progress: float) -> float:
        return self.multiplicity * progress


class Growing(Isometry):
    """Plain pairs with a β that grows."""

    def objective(self) -> nn.Module:
        config = self.config
        return GrowingObjective(self.model, self.equivariance, self.multiplicity, config.multiplicity_decay)


def grow() -> None:
    """Let β grow in plain pairs."""
    METHODS["niso"] = f"{__name__}.{Growing.__name__}"


REMEDIES: dict[str, tuple[str, Callable[[], object]]] = {
    "none": ("", lambda: None),
    "average": ("", lambda: Average(STEPS)),
    "clipping": ("", clip),
    "batch-64": (f"--batch-size 64 --steps {STEPS // 4} --warmup-steps 75", lambda: None),
    "rank-16-channels-64": ("--rank 16 --conv.latent-channels 64", lambda: None),
    "growing-multiplicity": ("--multiplicity 0.1 --multiplicity-decay 1", grow),
    "constant-multiplicity": ("--multiplicity 0.1 --multiplicity-decay 1", lambda: None),
}


def call(words: list[str]) -> None:
    """A command of niso; RuntimeError where it fails."""
    try:
        niso(words)
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"niso {' '.join(words)}: exit status {end.code}") from end


def main() -> None:
    """Parse the arguments, run and record one remedy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("remedy", choices=REMEDIES)
    parser.add_argument("--seed", default="0")
    options, more = parser.parse_known_args()  # what is left goes to niso run
    flags, start = REMEDIES[options.remedy]
    out = Path("runs/remedies") / f"{options.remedy}-seed{options.seed}"
    if out.exists():
        shutil.rmtree(out)  # not resumed: an average would begin anew
    start()
    words = f"{COMMON} --steps {STEPS} {flags}".split()
    call(["run", "homnist", *words, *more, "--seed", options.seed, "--out", str(out)])
    call(["record", str(out), "--to", f"results/homnist-remedies/{options.remedy}"])


if __name__ == "__main__":
    main()
