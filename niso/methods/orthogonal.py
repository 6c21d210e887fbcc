"""The paper's ablation without an operator: latents of a pair related by any orthogonal map, and nothing else learned.

Neither mass nor eigenfunctions: τ (N × N) acts on the N latent points themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from niso import losses
from niso.autoencoding import Autoencoding
from niso.checks import Scalar
from niso.linalg import full_precision, matmul, polar, span
from niso.methods.method import Method, Networks


class OrthogonalParts(NamedTuple):
    """The map τ = end · core · startᵀ between the spans of two latents, of d channels each.

    Attributes:
        start: (batch, points, r) orthonormal, r the smaller of points and d; the span of a is in theirs.
        core: (batch, r, r) orthogonal.
        end: (batch, points, r) orthonormal; the span of b is in theirs.
    """

    start: Float[Tensor, "*batch points rank"]
    core: Float[Tensor, "*batch rank rank"]
    end: Float[Tensor, "*batch points rank"]

    def move(self, a: Float[Tensor, "*batch points columns"]) -> Float[Tensor, "*batch points columns"]:
        """τ a, without τ itself."""
        return matmul(self.end, matmul(self.core, matmul(self.start.mT, a)))

    def inverse(self) -> OrthogonalParts:
        """τᵀ."""
        return OrthogonalParts(self.end, self.core.mT, self.start)

    def matrix(self) -> Float[Tensor, "*batch points points"]:
        """τ."""
        return matmul(matmul(self.end, self.core), self.start.mT)


@full_precision
def orthogonal_parts(
    a: Float[Tensor, "*batch points channels"], b: Float[Tensor, "*batch points channels"]
) -> OrthogonalParts:
    """An orthogonal τ that minimises ‖τ a − b‖, as far as losses depend on it.

    With fewer channels than points, which is the rule, b aᵀ has a null space on which τ is arbitrary. No loss depends
    on that part, and here it is zero, but for arbitrary directions in place of those that dependent channels lack.
    """
    if a.shape[-1] > a.shape[-2]:
        points = torch.eye(a.shape[-2], dtype=a.dtype, device=a.device).expand(*a.shape[:-2], -1, -1)
        return OrthogonalParts(points, polar(b @ a.mT), points)
    start, end = polar(a), polar(b)  # not by QR, whose derivative is NaN where a channel is zero
    return OrthogonalParts(start, polar((end.mT @ b) @ (start.mT @ a).mT), end)


@full_precision
def orthogonal_map(
    a: Float[Tensor, "*batch points channels"], b: Float[Tensor, "*batch points channels"], complete: bool = False
) -> Float[Tensor, "*batch points points"]:
    """What all orthogonal τ that minimise ‖τ a − b‖ have in common, the map of `orthogonal_parts` on the span of a.

    Args:
        complete: τ in O(N), the polar factor of b aᵀ as the SVD gives it. On the null space that is an arbitrary
            rotation, another for each pair, and it costs O(N³) where N > d.
    """
    return polar(b @ a.mT) if complete else orthogonal_parts(a, b).matrix() @ span(a)


class OrthogonalAutoencoder(Autoencoding):
    """Encoder + orthogonal latent map + decoder, from pairs.

    Args:
        encoder, decoder: those of a `NeuralIsometry`, with latents (batch, points, channels).
        norm: of both losses, see `niso.losses`.
        relative: see `niso.losses.equivariance`.

    Source: paper §5.3: "an ablative version … which does not learn an operator. Here τ is predicted directly between
    encodings and is required only to be orthogonal".
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        norm: losses.Norm = "l1",
        relative: bool = False,
    ) -> None:
        super().__init__(encoder, decoder)
        self.norm: losses.Norm = norm
        self.relative = relative

    def forward(self, x: Shaped[Tensor, "batch ..."], tx: Shaped[Tensor, "batch ..."]) -> dict[str, Float[Tensor, ""]]:
        """Losses "reconstruction" and "equivariance" of observations ψ and Tψ, each in both directions."""
        a, b = self.encode(torch.cat([x, tx])).split([len(x), len(tx)])
        tau = orthogonal_parts(a, b)
        moved = tau.move(a), tau.inverse().move(b)
        predictions = self.decode(torch.cat(moved)).split([len(part) for part in moved])
        errors = [losses.reconstruction(p, t, self.norm) for p, t in zip(predictions, (tx, x), strict=True)]
        equivariance = losses.transport(a, b, *moved, self.norm, self.relative)
        return {"reconstruction": errors[0] + errors[1], "equivariance": equivariance}

    def encode(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch points channels"]:
        """Latents, never below float32."""
        latents = self.encoder(x)
        return latents.to(torch.promote_types(latents.dtype, torch.float32))


class OrthogonalObjective(nn.Module):
    """An `OrthogonalAutoencoder` and the weight α of its equivariance loss: what the training loop pre-trains."""

    def __init__(self, model: OrthogonalAutoencoder, equivariance: float) -> None:
        super().__init__()
        self.model = model
        self.equivariance = equivariance

    def forward(self, batch: tuple[Tensor, ...], progress: Scalar) -> dict[str, Float[Tensor, ""]]:
        """Loss terms of a pair (ψ, Tψ) of batches; "loss" is what is minimised."""
        terms = self.model(*batch)
        return {"loss": terms["reconstruction"] + self.equivariance * terms["equivariance"], **terms}


class NoBasis(Method):
    """The paper's ablation without the operator: any orthogonal τ (N × N) between the encodings themselves."""

    map_text = "|τ| between the latent points"
    reads = Method.reads | {"equivariance", "relative_equivariance", "complete"}
    model: OrthogonalAutoencoder

    @classmethod
    def unread(cls, config: Any) -> dict[str, str]:
        return dict(config.weights_unread())

    def build(self, networks: Networks) -> OrthogonalAutoencoder:
        config = self.config
        relative = config.relative_equivariance is not None
        return OrthogonalAutoencoder(networks.encoder, networks.decoder, config.norm, relative)

    def objective(self) -> nn.Module:
        return OrthogonalObjective(self.model, self.config.equivariance_weight)

    def solve(
        self, a: Float[Tensor, "batch points channels"], b: Float[Tensor, "batch points channels"]
    ) -> Float[Tensor, "batch points points"]:
        return orthogonal_map(a, b, self.config.complete)
