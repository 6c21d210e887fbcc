"""Neural Isometries (paper §4) as a method: pairs, triplets, groups, a contrastive or VICReg term, and ablations."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from niso.config import SPECTRAL
from niso.functional_map import Mask, isometric_map, multiplicity_mask
from niso.geometry.domains.domain import Sampling
from niso.methods.config import GroupConfig
from niso.methods.method import Method, Networks
from niso.methods.part import parts_unread
from niso.methods.spectra import SPECTRA
from niso.methods.spectra.parametrisation import make_spectrum
from niso.model import NeuralIsometry
from niso.objective import IsometryObjective
from niso.spectrum import Spectrum, SpectrumModule


class Isometry(Method):
    """NIso from pairs: τ is solved from each pair and transports it (paper eq. 8–11)."""

    map_text = "|τ_Ω|, the eigenfunctions in ascending eigenvalue"
    reads: ClassVar[frozenset[str]] = Method.reads | {
        *("rank", "spectrum", "eigenvalues", "eigenfunctions"),
        *("special", "damping", "spectral_dropout"),
        *("equivariance", "relative_equivariance", "multiplicity", "multiplicity_decay"),
        *("whitened", "eigenvalue_noise", "eigenvalue_noise_decay"),
        *(f"{phase}.{name}" for phase in ("training", "head") for name in SPECTRAL),
    }
    commutes: ClassVar[bool] = True
    admitted: Mask = "soft"
    model: NeuralIsometry

    @classmethod
    def unread(cls, config: Any) -> dict[str, str]:
        unread: dict[str, str] = config.weights_unread()
        if not config.eigenvalue_noise:
            unread["eigenvalue_noise_decay"] = "--eigenvalue-noise is 0"
        noise = config.eigenvalue_noise and config.eigenvalue_noise_decay is None
        if not (config.multiplicity or noise):
            unread["multiplicity_decay"] = "--multiplicity is 0"
        return unread | parts_unread("spectrum", SPECTRA.found(), config.spectrum, config)

    def build(self, networks: Networks) -> NeuralIsometry:
        config = self.config
        rank = config.rank or networks.points
        return NeuralIsometry(
            networks.encoder,
            networks.decoder,
            make_spectrum(SPECTRA.find(config.spectrum), config, networks.domain, networks.grid, rank),
            mask=self.admitted,
            special=config.special,
            damping=config.damping,
            spectral_dropout=config.spectral_dropout,
            norm=config.norm,
            relative=config.relative_equivariance is not None,
            whitened=config.whitened,
            confidence=networks.confidence,
        )

    def objective(self) -> nn.Module:
        config = self.config
        return IsometryObjective(
            self.model,
            self.weight("equivariance", config.equivariance_weight),
            self.weight("multiplicity", config.multiplicity),
            config.multiplicity_decay,
            group=self.group,
            leave_one_out=self.leave_one_out,
            contrastive=self.weight("contrastive", config.contrastive),
            vicreg=self.weight("vicreg", config.vicreg),
            eigenvalue_noise=self.weight("eigenvalue_noise", config.eigenvalue_noise),
            eigenvalue_noise_decay=config.eigenvalue_noise_decay,
        )

    def weight(self, name: str, given: float) -> float:
        """A weight that settings give; 0 where this method does not read it."""
        return given if name in self.reads else 0.0

    @property
    def leave_one_out(self) -> bool:
        """Whether a map that transports an observation is solved from the others of its group."""
        return True

    def solve(
        self, a: Float[Tensor, "batch rank channels"], b: Float[Tensor, "batch rank channels"]
    ) -> Float[Tensor, "batch rank rank"]:
        model = self.model
        return isometric_map(a, b, self._eigenvalues(), model.mask, model.special, model.damping)

    def confidence(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch points"] | None:
        return self.latents(x)[..., -1] if self.model.confidence else None

    def spectrum(self) -> Spectrum:
        return cast(Spectrum, self.model.spectrum())

    def spectrum_at(self, sampling: Sampling) -> Spectrum | None:
        return cast(SpectrumModule, self.model.spectrum).at(*sampling)

    def mask(self) -> Float[Tensor, "rank rank"] | None:
        return None if self.model.mask is None else multiplicity_mask(self._eigenvalues())

    def eigenvalues(self) -> Float[Tensor, " rank"] | None:
        return self._eigenvalues() if self.commutes else None

    def _eigenvalues(self) -> Float[Tensor, " rank"]:
        return cast(SpectrumModule, self.model.spectrum).eigenvalues_alone()


class Triplets(Isometry):
    """NIso from triplets: the map of one step transports the other (paper eq. 23–24)."""

    views = 3


class Groups(Isometry):
    """NIso from groups that share one T: the map of the others transports each member (not in the paper)."""

    grouped = True
    reads = Isometry.reads | {"group", "leave_one_out"}
    config: GroupConfig

    @property
    def group(self) -> int:
        return self.config.group

    @property
    def leave_one_out(self) -> bool:
        return self.config.leave_one_out


class Contrastive(Isometry):
    """NIso from pairs, with a contrastive term between ψ and Tψ (not in the paper; `niso.losses.contrastive`)."""

    compared = 2
    reads = Isometry.reads | {"contrastive"}


class Vicreg(Isometry):
    """NIso from pairs, whose invariants must vary over a batch (not in the paper; `niso.losses.vicreg`)."""

    compared = 3
    reads = Isometry.reads | {"vicreg"}

    def build(self, networks: Networks) -> NeuralIsometry:
        if networks.channels < 2:
            raise ValueError(
                "invariants of a single latent channel cannot vary but in size: choose more channels or another method"
            )
        return super().build(networks)


class VicregGroups(Groups, Vicreg):
    """NIso from groups, whose invariants must vary as well (not in the paper)."""

    reads = Groups.reads | Vicreg.reads


class NoEquivariance(Isometry):
    """The paper's ablation without the equivariance loss: α = 0."""

    reads = Isometry.reads - {"equivariance", "relative_equivariance", "whitened"}


class NoMultiplicity(Isometry):
    """The paper's ablation without the multiplicity loss: β = 0."""

    reads = Isometry.reads - {"multiplicity", "multiplicity_decay", "eigenvalue_noise", "eigenvalue_noise_decay"}


class NoOperator(NoMultiplicity):
    """Without the operator: τ is any orthogonal matrix between the coefficients. Mass and functions stay, learned."""

    admitted = None
    commutes = False
    map_text = "|τ| between coefficients"
    reads = NoMultiplicity.reads - {
        "eigenvalues",
        "training.eigenvalue_learning_rate",
        "training.eigenvalues_frozen",
    }
