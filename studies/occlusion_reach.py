"""How far an occluder reaches in latents that were pre-trained without one, and what weighting points can undo.

An encoder normalises its channels over the whole image and its convolutions are wide: what covers a part of it changes
latents elsewhere. Measured on validation digits of a homNIST run under homographies, with the occluder as it is and
with −1, the background, in its place: the error of latents at points away from it, and of coefficients, plain and with
the true mask as confidence. And of maps between two covered views: solved from all points, from those that each view
shows, and from those that both show, which takes the true homography to find out.

Run: python -m studies.occlusion_reach RUN --data-dir MNIST
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from benchmarks.common import Named, table, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor, nn

import niso
from niso import metrics
from niso.data.squares import signed
from niso.experiments import partial_views
from niso.experiments.homnist.classification import occluder
from niso.experiments.homnist.experiment import Homnist
from niso.geometry.homographies import Homographies
from niso.methods.method import Method

DIGITS = 250


@dataclass(frozen=True)
class Reach:
    """Options."""

    run: Annotated[str, tyro.conf.Positional]
    """Folder of a finished homNIST run without occlusion and with a validation split, or a model's name."""
    data_dir: Path | None = None
    """Folder of MNIST's files."""


def relative(error: Tensor, whole: Tensor, where: Tensor | None = None) -> float:
    """Mean square error, relative to the variance over digits; both of some entries, or of all."""
    squares, variance = error.square(), (whole - whole.mean(0)).square()
    if where is not None:
        squares, variance = squares[where], variance[where]
    return (squares.mean() / variance.mean()).item()


def shares(seen: Tensor, grid: tuple[int, int]) -> Tensor:
    """Confidence of each latent point: the share of its cell's pixels that are seen, squared."""
    return nn.functional.adaptive_avg_pool2d(seen, grid).flatten(1).square()


@torch.no_grad()
def map_errors(
    method: Method, x: Tensor, tx: Tensor, t: Tensor, share: float, generator: torch.Generator
) -> dict[str, float]:
    """Relative errors of the maps from ψ to Tψ, each behind an occluder of its own, on the next digit, a whole one."""
    spectrum, ones = method.spectrum(), Homographies(background=0)
    assert spectrum is not None
    occluders = [occluder(x, share, generator) for _ in range(2)]
    first, second = seen = [(~front.covered).float() for front in occluders]
    true = ones.act(second, ones.inverse(t)), ones.act(first, t)
    both = [first * true[0], second * true[1]]
    next_x = x.roll(-1, 0)
    a, b = method.encode(next_x), method.encode(Homographies().act(next_x, t))

    def error(*pair: Tensor) -> float:
        return metrics.relative_map_error(a, b, tau_other=method.solve(*pair)).mean().item()

    def hidden(shown: Sequence[Tensor]) -> list[Tensor]:
        return [method.encode(view * part + (part - 1)) for view, part in zip((x, tx), shown, strict=True)]

    latents = [method.latents(front.over(view)) for front, view in zip(occluders, (x, tx), strict=True)]
    errors = {"all": error(*(spectrum.project(z) for z in latents))}
    for name, shown in (("own", seen), ("both", both)):
        confidence = [shares(part, method.grid) for part in shown]
        errors[name] = error(*(spectrum.project(z, c) for z, c in zip(latents, confidence, strict=True)))
        errors[f"{name} before"] = error(*hidden(shown))
    # What the other view shows, carried over by the map itself as a function on the latent grid
    tau = method.solve(*hidden(seen))
    masks = [
        spectrum.project(nn.functional.adaptive_avg_pool2d(part, method.grid).flatten(1)[..., None]) for part in seen
    ]
    functions = [spectrum.unproject(m).mT.unflatten(-1, method.grid) for m in (tau.mT @ masks[1], tau @ masks[0])]
    carried = [nn.functional.interpolate(f, x.shape[-2:], mode="bilinear") for f in functions]
    errors["carried before"] = error(*hidden([part * (c > 0.5) for part, c in zip(seen, carried, strict=True)]))
    pair = torch.stack([torch.cat(part).flatten() for part in (carried, true)])
    errors["correlation"] = torch.corrcoef(pair)[0, 1].item()
    return errors


@torch.no_grad()
def main(options: Reach) -> None:
    """Measure, print and write."""
    fitted = niso.load(options.run)
    method, config = fitted.method, fitted.settings.config
    experiment = Homnist(config, "niso", 0, options.data_dir, torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    images = experiment.split.validation.images
    x = signed(images[torch.arange(DIGITS) * len(images) // DIGITS])[:, None]
    t, after = (experiment.action.sample(len(x), generator) for _ in range(2))
    x = experiment.action.act(x, t)
    tx = experiment.action.act(x, after)
    z, a, spectrum = method.latents(x), method.encode(x), method.spectrum()
    assert spectrum is not None
    rows, results, maps = [], [], []
    for share in partial_views.SHARES[1:]:
        front = occluder(x, share, generator)
        hidden = nn.functional.adaptive_avg_pool2d(front.covered.float(), method.grid)
        away = (nn.functional.max_pool2d(hidden, 3, 1, 1) == 0).flatten(1)
        for name, seen in (("as it is", front.over(x)), ("−1", x.masked_fill(front.covered, -1))):
            latents = method.latents(seen)
            weighted = spectrum.project(latents, (1 - hidden).flatten(1).square())
            errors = (
                relative(latents - z, z, away),
                relative(method.encode(seen) - a, a),
                relative(weighted - a, a),
            )
            rows.append([f"{share:.0%}", name, *errors])
            results.append(
                {"share": share, "occluder": name, "away": errors[0], "plain": errors[1], "weighted": errors[2]}
            )
        maps.append({"share": share, **map_errors(method, x, tx, after, share, generator)})
    columns = ["covered", "occluder", "latents away from it", "coefficients", "coefficients, weighted by the true mask"]
    table("Mean square errors, relative to the variance over digits", columns, rows)
    trained = {"method": fitted.settings.method, "spectrum": config.spectrum, "steps": config.training.steps}
    names = {
        "all": "all points",
        "own": "what each shows",
        "both": "what both show",
        "own before": "the same, −1 elsewhere before the encoder: each",
        "both before": "both",
        "carried before": "both, as the map has it",
        "correlation": "correlation of that with the truth",
    }
    table(
        "Relative errors of maps that are solved from",
        ["covered", *names.values()],
        [[f"{row['share']:.0%}", *(row[name] for name in names)] for row in maps],
    )
    write("occlusion_reach", Named(), {"trained": trained, "errors": results, "maps": maps})


if __name__ == "__main__":
    main(tyro.cli(Reach))
