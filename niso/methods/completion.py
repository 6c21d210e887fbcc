"""Training under occlusion: an encoder learns to see behind what covers a picture what it saw without it."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from niso import losses
from niso.autoencoding import Autoencoding
from niso.checks import Scalar
from niso.networks.occlusion import RandomOcclusion


class CompletionObjective(nn.Module):
    """Coefficients of covered observations are drawn to those that the same encoder gave of the whole ones.

    The encoder is pre-trained on whole observations. A copy of it, which stays as it is, says what it made of them;
    operator and decoder stay too. So occlusion cannot change which maps relate observations, nor what invariants tell.
    Where the encoder predicts what is seen, it is told in training (not in the paper).

    Args:
        model: only its encoder is trained.
        occlusion: covers observations.
        visibility: the part of the encoder that predicts which pixels are seen, if it has one.
        norm: of the loss, see `niso.losses`.
    """

    def __init__(
        self, model: Autoencoding, occlusion: RandomOcclusion, visibility: nn.Module | None, norm: losses.Norm = "l1"
    ) -> None:
        super().__init__()
        self.whole = deepcopy(model).requires_grad_(False).eval()
        self.model = model.requires_grad_(False)
        model.encoder.requires_grad_(True)
        self.occlusion = occlusion
        self.visibility = visibility
        self.norm: losses.Norm = norm

    def train(self, mode: bool = True) -> CompletionObjective:
        super().train(mode)
        self.whole.eval()
        return self

    def forward(self, batch: tuple[Tensor, ...], progress: Scalar) -> dict[str, Tensor]:
        """Loss terms of observations and transformed ones, all alike; "loss" is their sum."""
        views = torch.cat(batch)
        with torch.no_grad():
            target = self.whole.encode(views)
        occluder = self.occlusion.occluder(views)
        covered = occluder.over(views, self.occlusion.mark)
        predicted = self.model.encode(covered)
        terms = {"completion": losses.completion(predicted, target, self.norm)}
        if self.visibility is not None:
            terms["visibility"] = losses.visibility(self.visibility(covered), ~occluder.covered)
        return {"loss": torch.stack(list(terms.values())).sum(), **terms}
