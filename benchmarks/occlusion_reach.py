"""How far an occluder reaches in latents that were pre-trained without one, and what weighting points can undo.

An encoder normalises its channels over the whole image and its convolutions are wide: what covers a part of it changes
latents elsewhere. Measured on validation digits of a homNIST run under homographies, with the occluder as it is and
with −1, the background, in its place: the error of latents at points away from it, and of coefficients, plain and with
the true mask as confidence.

Run: python -m benchmarks.occlusion_reach RUN --data-dir MNIST
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from benchmarks.common import Named, table, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor, nn

import niso
from niso.data.digits.mnist import signed
from niso.experiments import partial_views
from niso.experiments.homnist.experiment import Homnist
from niso.geometry.occluders import draw_occluder

DIGITS = 250


@dataclass(frozen=True)
class Reach:
    """Options."""

    run: Annotated[str, tyro.conf.Positional]
    """Folder of a finished homNIST run without occlusion and with a validation split."""
    data_dir: Path | None = None
    """Folder of MNIST's files."""


def relative(error: Tensor, whole: Tensor) -> float:
    """Mean square error, relative to the variance over digits."""
    return (error.square().mean() / (whole - whole.mean(0)).square().mean()).item()


@torch.no_grad()
def main(options: Reach) -> None:
    """Measure, print and write."""
    fitted = niso.load(options.run)
    method, config = fitted.method, fitted.settings.config
    experiment = Homnist(config, "niso", 0, options.data_dir, torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    images = experiment.validation_images
    x = signed(images[torch.arange(DIGITS) * len(images) // DIGITS])[:, None]
    x = experiment.action.act(x, experiment.action.sample(len(x), generator))
    z, a, spectrum = method.latents(x), method.encode(x), method.spectrum()
    assert spectrum is not None
    rows, results = [], []
    for share in partial_views.SHARES[1:]:
        occluder = draw_occluder(torch.full((len(x),), share), (x.shape[-2], x.shape[-1]), generator)
        hidden = nn.functional.adaptive_avg_pool2d(occluder.covered.float(), method.grid)
        away = (nn.functional.max_pool2d(hidden, 3, 1, 1) == 0).flatten(1)
        for name, seen in (("as it is", occluder.over(x)), ("−1", x.masked_fill(occluder.covered, -1))):
            latents = method.latents(seen)
            weighted = spectrum.project(latents, (1 - hidden).flatten(1).square())
            errors = (
                relative((latents - z)[away], z),
                relative(method.encode(seen) - a, a),
                relative(weighted - a, a),
            )
            rows.append([f"{share:.0%}", name, *errors])
            results.append(
                {"share": share, "occluder": name, "away": errors[0], "plain": errors[1], "weighted": errors[2]}
            )
    columns = ["covered", "occluder", "latents away from it", "coefficients", "coefficients, weighted by the true mask"]
    table("Mean square errors, relative to the variance over digits", columns, rows)
    trained = {"method": fitted.settings.method, "spectrum": config.spectrum, "steps": config.training.steps}
    write("occlusion_reach", Named(), {"trained": trained, "errors": results})


if __name__ == "__main__":
    main(tyro.cli(Reach))
