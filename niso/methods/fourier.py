"""The Neural Fourier Transform baseline (Koyama et al. 2023, after Miyato et al. 2022), trained as niso is.

An NFT latent is H (s × a); a transformation is the matrix M (a × a) with H₀ M ≈ H₁, solved for every example by least
squares and unconstrained. Here latents and maps are kept in niso's orientation, so that heads, metrics and figures
take either method: coefficients Hᵀ (batch, a, s), whose vectors live along axis 1, and maps τ = Mᵀ with τ a ≈ b.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from niso import losses
from niso.autoencoding import Autoencoding
from niso.checks import Scalar
from niso.functional_map import least_squares_map
from niso.linalg import full_precision, matmul
from niso.methods.block_diagonal import block_diagonalise
from niso.methods.method import Batches, Method, Networks


class NeuralFourierTransform(Autoencoding):
    """Encoder + least-squares latent map + decoder, from pairs or triplets; nothing but pixel errors trains it.

    Encoder and decoder are those of a `NeuralIsometry`, with latents (batch, points N, channels d). Learned linear maps
    reduce N points to a = `rank` and lift them again, where NIso has ΦᵀM and Φ. They start as such a pair (orthonormal,
    and its transpose) and are free and separate from then on. Map (a × a) and head tensor (a × d) have NIso's sizes, as
    the paper has it. With d ≤ rank, as there (32, 32), M fits any pair exactly, so that pairs impose no equivariance;
    with d > rank the latent is tall.

    Args:
        rank: size a of the maps.
        points: number N of points, to be reduced to `rank`.
        ridge: added to the diagonal of HᵀH, as a share of its mean entry.
        norm: of the pixel errors: mean absolute, as NIso's, or mean squared, as published.

    Raises:
        ValueError: a rank below 1 or above `points`.

    Source: paper appendix "Baselines"; how N points and d channels become s × a is not stated there.
    """

    basis: Tensor

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        rank: int,
        points: int,
        ridge: float = 1e-6,
        norm: losses.Norm = "l1",
    ) -> None:
        super().__init__(encoder, decoder)
        if not 1 <= rank <= points:
            raise ValueError(f"rank must be at least 1 and at most the number of points, {points}, got {rank}")
        self.rank = rank
        self.points = points
        self.ridge = ridge
        self.norm: losses.Norm = norm
        orthonormal = nn.init.orthogonal_(torch.empty(rank, points))
        self.reduction = nn.Parameter(orthonormal)
        self.lifting = nn.Parameter(orthonormal.mT.clone())
        self.register_buffer("basis", torch.eye(rank))  # U of the diagonalisation, once it is fitted

    def forward(
        self,
        x: Shaped[Tensor, "batch ..."],
        tx: Shaped[Tensor, "batch ..."],
        ttx: Shaped[Tensor, "batch ..."] | None = None,
    ) -> Float[Tensor, ""]:
        """Pixel error of ψ, Tψ and, for triplets, T²ψ: a mean for each transported view, summed. No basis is applied.

        - Pairs: M from (ψ, Tψ) carries ψ, which is decoded against Tψ, and one from (Tψ, ψ) carries Tψ back.
        - Triplets: M from (ψ, Tψ) carries Tψ, decoded against T²ψ, and one from (Tψ, T²ψ) carries ψ, decoded against
          Tψ: the terms of NIso's triplets.

        So that it sees as many reconstructions a step as NIso does; published are the first ones alone.

        Raises:
            ValueError: views of different lengths, or latents of another shape than the construction says.
        """
        views = (x, tx) if ttx is None else (x, tx, ttx)
        if len({len(view) for view in views}) > 1:
            raise ValueError(f"views of one batch must be equally long, not {[len(view) for view in views]}")
        a, b, *c = self._reduce(self.encoder(torch.cat(views))).chunk(len(views))
        tau = self.solve(a, b)
        if ttx is None:
            moved, targets = (matmul(tau, a), matmul(self.solve(b, a), b)), (tx, x)
        else:
            moved, targets = (matmul(tau, b), matmul(self.solve(b, *c), a)), (ttx, tx)
        predictions = self.decoded(self._lift(torch.cat(moved))).chunk(2)
        terms = [losses.reconstruction(p, t, self.norm) for p, t in zip(predictions, targets, strict=True)]
        return torch.stack(terms).sum()

    def solve(
        self, a: Float[Tensor, "batch rank channels"], b: Float[Tensor, "batch rank channels"]
    ) -> Float[Tensor, "batch rank rank"]:
        """Maps τ = M*ᵀ, M* = (H₀ᵀH₀ + r I)⁻¹ H₀ᵀH₁, between coefficients a = H₀ᵀ and b = H₁ᵀ; differentiable."""
        return least_squares_map(a, b, self.ridge)

    def encode(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch rank channels"]:
        """Coefficients (H U)ᵀ in the basis of the diagonalisation: the input of equivariant heads."""
        return matmul(self.basis.mT, self._reduce(self.encoder(x)))

    def decode(self, a: Float[Tensor, "batch rank channels"]) -> Shaped[Tensor, "batch ..."]:
        """Observations from what `encode` gives."""
        return self.decoded(self._lift(_solve(self.basis.mT, a)))

    def solve_in_basis(
        self, a: Float[Tensor, "batch rank channels"], b: Float[Tensor, "batch rank channels"]
    ) -> Float[Tensor, "batch rank rank"]:
        """Maps τ = Vᵀ, V = U⁻¹ M U, between coefficients that `encode` gives.

        They are solved in the first basis: the ridge is of that.
        """
        basis = self.basis.mT
        tau = self.solve(_solve(basis, a), _solve(basis, b))
        return matmul(basis, _solve(basis, tau, left=False))

    @torch.no_grad()
    def diagonalise(
        self, maps: Float[Tensor, "count rank rank"], epochs: int = 50, seed: int = 0
    ) -> Float[Tensor, "rank rank"]:
        """Fit U to maps that `solve_in_basis` gave (about 3,200 as published), and use it from then on.

        Returns:
            The change of basis of this fit; a second one is applied on top of the first.
        """
        change = block_diagonalise(maps.mT, epochs, seed)
        self.basis.copy_(self.basis @ change.to(self.basis))
        return change

    def _reduce(self, z: Tensor) -> Tensor:
        if z.ndim != 3 or z.shape[1] != self.points:
            raise ValueError(f"latents must be (batch, {self.points}, channels), not {tuple(z.shape)}")
        return matmul(self.reduction, z)

    def _lift(self, a: Tensor) -> Tensor:
        return matmul(self.lifting, a)


_solve = full_precision(torch.linalg.solve)


class FourierObjective(nn.Module):
    """A `NeuralFourierTransform` and its loss: what the training loop pre-trains."""

    def __init__(self, model: NeuralFourierTransform) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: tuple[Tensor, ...], progress: Scalar) -> dict[str, Float[Tensor, ""]]:
        """Loss terms of a pair (ψ, Tψ) or triplet (ψ, Tψ, T²ψ) of batches."""
        loss = self.model(*batch)
        return {"loss": loss, "reconstruction": loss.detach()}


class Fourier(Method):
    """NFT from pairs, with maps and a head tensor of the size that NIso has (paper appendix "Baselines").

    Errors of its maps (`equivariance_error`, `relative_map_error`) are measured in the basis of the block
    diagonalisation. It is not orthogonal and changes them: they are not comparable digit by digit with those of NIso.
    """

    map_text = "|V| after the block diagonalisation"
    isometric = False
    reads = Method.reads | {"rank", "nft_epochs", "nft_maps"}
    model: NeuralFourierTransform

    @classmethod
    def unread(cls, config: Any) -> dict[str, str]:
        return {} if config.nft_epochs else {"nft_maps": "--nft-epochs 0 leaves the block diagonalisation out"}

    def build(self, networks: Networks) -> NeuralFourierTransform:
        points, rank = networks.points, self.config.rank or networks.points
        return NeuralFourierTransform(networks.encoder, networks.decoder, rank, points, norm=self.config.norm)

    def objective(self) -> nn.Module:
        return FourierObjective(self.model)

    def solve(
        self, a: Float[Tensor, "batch rank channels"], b: Float[Tensor, "batch rank channels"]
    ) -> Float[Tensor, "batch rank rank"]:
        return self.model.solve_in_basis(a, b)

    @torch.no_grad()
    def after_pretraining(self, pairs: Callable[[int], Batches], seed: int) -> None:
        """Fit the block diagonalisation."""
        if self.config.nft_epochs:
            self.model.eval()
            maps = [self.solve(self.encode(x), self.encode(tx)) for x, tx in pairs(self.config.nft_maps)]
            self.model.diagonalise(torch.cat(maps), self.config.nft_epochs, seed=seed)


class FourierTriplets(Fourier):
    """NFT from triplets."""

    views = 3
