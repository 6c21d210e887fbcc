"""A model of single points, with eigenfunctions on each surface, and what its training minimises."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from niso import losses
from niso.checks import Scalar
from niso.errors import TrainingError
from niso.experiments.descriptors.presets import DescriptorsConfig
from niso.experiments.descriptors.surfaces import Seen
from niso.functional_map import isometric_map
from niso.linalg import matmul
from niso.spectrum import FieldSpectrum, Spectrum


class Basis(NamedTuple):
    """A surface in the eigenbasis: its spectrum, latents' coefficients, and what networks see."""

    spectrum: Spectrum
    coefficients: Float[Tensor, "rank channels"]
    seen: Seen


class PointModel(nn.Module):
    """Field, encoder and decoder, all of single points.

    Args:
        special, damping: of maps, see `niso.isometric_map`.
    """

    def __init__(
        self, spectrum: FieldSpectrum, encoder: nn.Module, decoder: nn.Module, special: bool, damping: float
    ) -> None:
        super().__init__()
        self.spectrum, self.encoder, self.decoder = spectrum, encoder, decoder
        self.special, self.damping = special, damping

    def basis(self, surface: Seen) -> Basis:
        """A surface's eigenfunctions, and the coefficients of its latent functions.

        Raises:
            TrainingError: the eigenfunctions are linearly dependent on it.
        """
        try:
            spectrum = self.spectrum.at(*surface, checked=True)  # by `seen`
        except torch.linalg.LinAlgError as error:
            raise TrainingError(
                "eigenfunctions have become linearly dependent on a surface, as where many points have nearly the same "
                f"descriptors: give a smaller --rank, or leave such surfaces out ({error})"
            ) from error
        latents = self.encoder(surface.points.to(self.spectrum.places))
        return Basis(spectrum, spectrum.project(latents.to(spectrum.eigenfunctions)), surface)

    def solve(self, a: Basis, b: Basis) -> Float[Tensor, "rank rank"]:
        """The map from one surface to another (paper eq. 8)."""
        eigenvalues = a.spectrum.eigenvalues
        return isometric_map(a.coefficients, b.coefficients, eigenvalues, special=self.special, damping=self.damping)


class PointObjective(nn.Module):
    """Reconstruction, equivariance and multiplicity losses (paper eq. 9–11) of pairs with a spectrum each."""

    def __init__(self, model: PointModel, pairs: list[tuple[Seen, Seen]], config: DescriptorsConfig) -> None:
        super().__init__()
        self.model, self.pairs, self.config = model, pairs, config

    def forward(self, batch: tuple[Int[Tensor, " batch"]], progress: Scalar) -> dict[str, Float[Tensor, ""]]:
        terms = [self._pair(*self.pairs[number]) for number in batch[0].tolist()]
        means = {name: torch.stack([term[name] for term in terms]).mean() for name in terms[0]}
        multiplicity = losses.multiplicity(self.model.spectrum.eigenvalues_alone())
        config = self.config
        decayed = losses.decayed(config.multiplicity, config.multiplicity_decay, progress)
        loss = means["reconstruction"] + config.equivariance * means["equivariance"] + decayed * multiplicity
        return {"loss": loss, **means, "multiplicity": multiplicity}

    def _pair(self, first: Seen, second: Seen) -> dict[str, Float[Tensor, ""]]:
        a, b = self.model.basis(first), self.model.basis(second)
        tau, norm = self.model.solve(a, b), self.config.norm
        forward, backward = matmul(tau, a.coefficients), matmul(tau.mT, b.coefficients)
        there, here = b.spectrum.unproject(forward), a.spectrum.unproject(backward)
        return {
            "reconstruction": losses.reconstruction(self._decoded(there), second.points, norm)
            + losses.reconstruction(self._decoded(here), first.points, norm),
            "equivariance": losses.transport(a.coefficients, b.coefficients, forward, backward, norm),
        }

    def _decoded(self, latents: Float[Tensor, "points channels"]) -> Float[Tensor, "points descriptors"]:
        parameter = next(self.model.decoder.parameters())
        return self.model.decoder(latents.to(parameter.dtype))
