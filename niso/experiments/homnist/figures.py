"""Pictures of a homNIST run, in the order that its report shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from niso import figures
from niso.experiments import map_figures as map_pictures
from niso.methods import Autoencoder
from niso.model import NeuralIsometry
from niso.report import Picture

if TYPE_CHECKING:
    from niso.experiments.homnist.experiment import Homnist, Pairs

COUNT = 8


@torch.no_grad()
def pictures(experiment: Homnist) -> list[Picture]:
    """Accuracy by strength, transported digits, maps, and the learned spectrum, as far as the method has them."""
    experiment.model.eval()
    held_out = experiment.pairs(COUNT)
    drawn = [accuracy(experiment), digits(experiment, held_out)]
    if not isinstance(experiment.model, Autoencoder):
        few = tuple(part[:6] for part in held_out)
        drawn.append(map_pictures.same_transformation(experiment.model, few, "digit", "homography"))
    if isinstance(experiment.model, NeuralIsometry):
        drawn += spectrum(experiment, held_out)
    return drawn


def accuracy(experiment: Homnist) -> Picture:
    """Share of correct test images against the homography's strength."""
    correct, strength = experiment.scores or experiment.classify(experiment.test_set)
    pixels = strength * (experiment.test_images.shape[-1] - 1) / 2
    return Picture(
        "accuracy",
        "Accuracy on the perturbed test set against how far the homography moves the corners of the image, in twenty "
        "bins of equally many images. The head was trained on digits as they are, of strength zero (the autoencoder's: "
        "on randomly warped ones); a method whose latents are equivariant keeps its accuracy as homographies grow.",
        figures.accuracy_by_strength(correct, pixels, "mean displacement of the corners (pixels)"),
    )


def digits(experiment: Homnist, held_out: Pairs) -> Picture:
    """Held-out digits, transformed, and what the model makes of them."""
    model, (x, tx, other, t_other) = experiment.model, held_out
    rows = [("ψ", x), ("Tψ", tx)]
    if isinstance(model, Autoencoder):
        rows.append(("D E(Tψ)", model.decode(model.encode(tx))))
        caption = "Held-out digits, the same under random homographies, and the autoencoder's reconstructions of these."
    else:
        a, tau = model.encode(x), model.map_between(x, tx)
        stolen = model.map_between(other, t_other)
        rows += [
            ("D E(ψ)", model.decode(a)),
            ("D τ E(ψ)", model.decode(tau @ a)),
            ("D τ′ E(ψ)", model.decode(stolen @ a)),
        ]
        caption = (
            "Held-out digits, the same under random homographies, reconstructions, and predictions of the transformed "
            "digit from the first row: by the map τ solved from the pair itself, and by the map τ′ solved from another "
            "digit under the same homography, which cannot carry anything of this digit's."
        )
    return Picture(
        "digits", caption, figures.image_rows([(title, as_colours(view)) for title, view in rows], (-1.0, 1.0))
    )


def as_colours(images: Float[Tensor, "count 1 side side"]) -> Float[Tensor, "count side side 3"]:
    """Grey images as colour images, which `image_rows` shows as they are."""
    return images.float().cpu().permute(0, 2, 3, 1).expand(-1, -1, -1, 3)


def spectrum(experiment: Homnist, held_out: Pairs) -> list[Picture]:
    """Eigenfunctions, eigenvalue mask and maps under it, mass."""
    model = experiment.model
    assert isinstance(model, NeuralIsometry)
    mass, functions, eigenvalues = (part.cpu() for part in model.spectrum())
    order = eigenvalues.argsort()
    return [
        Picture(
            "eigenfunctions",
            "Learned eigenfunctions on the latent grid, in ascending eigenvalue.",
            figures.eigenfunction_mosaic(functions[:, order], experiment.grid, eigenvalues[order]),
        ),
        map_pictures.mask(model, held_out.x, held_out.tx, f"{COUNT} homographies"),
        Picture("mass", "Learned mass on the latent grid.", figures.mass_map(mass, experiment.grid)),
    ]
