"""The objective of pre-training: a model and the weights of its loss (paper eq. 11)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from niso import losses
from niso.checks import Scalar, check_count, check_instance, check_number
from niso.model import NeuralIsometry


class IsometryObjective(nn.Module):
    """A `NeuralIsometry` and the weights of its loss: the objective of pre-training.

    Args:
        model: the model to be trained.
        equivariance, multiplicity: α and β of paper eq. 11.
        multiplicity_decay: factor by which β decays over the end of training, see `niso.losses.decayed`; 1 is the
            paper's constant β.
        group, leave_one_out: the group regime, see `NeuralIsometry.forward`.
        contrastive, vicreg: weights of `niso.losses.contrastive` and `niso.losses.vicreg` between ψ and Tψ; 0, as in
            the paper, turns them off.
        eigenvalue_noise: see `NeuralIsometry.forward`; of the first step.
        eigenvalue_noise_decay: factor that this noise reaches at the end, geometrically over all of the training: what
            strong noise has unmixed, weak noise makes exact. By default it decays as β does.

    Raises:
        TypeError: a model that is not a `NeuralIsometry`, or weights that are no numbers.
        ValueError: a negative weight or factor, or a group of fewer than one.
    """

    def __init__(
        self,
        model: NeuralIsometry,
        equivariance: float,
        multiplicity: float,
        multiplicity_decay: float = 1.0,
        group: int = 1,
        leave_one_out: bool = True,
        contrastive: float = 0.0,
        vicreg: float = 0.0,
        eigenvalue_noise: float = 0.0,
        eigenvalue_noise_decay: float | None = None,
    ) -> None:
        super().__init__()
        check_instance("model", model, NeuralIsometry, "niso.NeuralIsometry")
        for name, weight in {
            "equivariance": equivariance,
            "multiplicity": multiplicity,
            "multiplicity_decay": multiplicity_decay,
            "contrastive": contrastive,
            "vicreg": vicreg,
            "eigenvalue_noise": eigenvalue_noise,
            "eigenvalue_noise_decay": eigenvalue_noise_decay or 0.0,
        }.items():
            check_number(name, weight)
        self.model = model
        self.equivariance = equivariance
        self.multiplicity = multiplicity
        self.multiplicity_decay = multiplicity_decay
        self.group = check_count("group", group)
        self.leave_one_out = leave_one_out
        self.contrastive = contrastive
        self.vicreg = vicreg
        self.eigenvalue_noise = eigenvalue_noise
        self.eigenvalue_noise_decay = eigenvalue_noise_decay

    def multiplicity_at(self, progress: Scalar) -> Scalar:
        """β after the share `progress` of training, in [0, 1]."""
        return losses.decayed(self.multiplicity, self.multiplicity_decay, progress)

    def noise_at(self, progress: Scalar) -> Scalar:
        """Standard deviation of the noise on eigenvalues, likewise."""
        if self.eigenvalue_noise_decay is None:
            return losses.decayed(self.eigenvalue_noise, self.multiplicity_decay, progress)
        return losses.decayed(self.eigenvalue_noise, self.eigenvalue_noise_decay, progress, share=1.0)

    def forward(self, batch: tuple[Tensor, ...], progress: Scalar) -> dict[str, Float[Tensor, ""]]:
        """Loss terms of a pair (ψ, Tψ) or triplet (ψ, Tψ, T²ψ) of batches; "loss" is their weighted sum.

        Args:
            batch: the views.
            progress: share of the training that is done, in [0, 1]: `step / steps`.

        Raises:
            TypeError: one tensor alone, or neither two nor three.
            ValueError: a progress outside [0, 1] where a weight decays, see `niso.losses.decayed`.
        """
        if isinstance(batch, Tensor) or len(batch) not in (2, 3):
            raise TypeError("a batch must be a pair (x, tx) or a triplet (x, tx, ttx) of tensors")
        noise = self.noise_at(progress)
        out = self.model(*batch, group=self.group, leave_one_out=self.leave_one_out, eigenvalue_noise=noise)
        loss, terms = out.loss(self.equivariance, self.multiplicity_at(progress)), out.losses
        if self.contrastive:
            terms["contrastive"] = losses.contrastive(out.latents[0], out.latents[1])
            loss = loss + self.contrastive * terms["contrastive"]
        if self.vicreg:
            terms["vicreg"] = losses.vicreg(out.latents[0], out.latents[1])
            loss = loss + self.vicreg * terms["vicreg"]
        return {"loss": loss, **terms}
