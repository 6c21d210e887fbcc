"""Training a classification head on top of a pre-trained backbone (paper §4.4)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from niso.checks import Scalar


class ClassificationObjective(nn.Module):
    """A backbone and a head that classifies its features: what the training loop fine-tunes.

    A frozen backbone stays in evaluation mode, runs without gradients, and has `requires_grad` taken from all its
    parameters here. It is part of the state, so that a checkpoint holds the whole classifier.

    Args:
        backbone: what the features come from.
        head: features to class scores (batch, classes).
        encode: observations to features; `nn.Identity()` where the batches hold the features of a frozen backbone.
        frozen: train the head alone (homNIST, paper §5.1); otherwise both.
        also: further losses on the backbone, of whatever else a batch holds: (views, progress) → loss terms, whose
            "loss" is added. Its modules are the backbone's.
        smoothing: of labels, in [0, 1]: the share of each that goes to all classes alike (Szegedy et al., "Rethinking
            the Inception Architecture", CVPR 2016). The paper has none.
    """

    def __init__(
        self,
        backbone: nn.Module,
        head: nn.Module,
        encode: Callable[[Tensor], Tensor],
        frozen: bool = True,
        also: Callable[[tuple[Tensor, ...], Scalar], dict[str, Tensor]] | None = None,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.frozen = frozen
        self.given_encode = encode
        self.also = also
        self.smoothing = smoothing
        if frozen:
            backbone.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> ClassificationObjective:
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def scores(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch classes"]:
        """Class scores (logits) of observations."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            features = self.given_encode(x)
        return self.head(features)

    def forward(self, batch: tuple[Tensor, ...], progress: Scalar) -> dict[str, Float[Tensor, ""]]:
        """Softmax cross-entropy and the share of correct classes, "accuracy", of (observations, labels, *views).

        "loss" is the cross-entropy with smoothed labels, or its sum with what the further losses make of the views.
        """
        x, labels, *views = batch
        scores = self.scores(x)
        accuracy = (scores.detach().argmax(-1) == labels).float().mean()
        loss = nn.functional.cross_entropy(scores, labels, label_smoothing=self.smoothing)
        if self.also is None:
            return {"loss": loss, "accuracy": accuracy}
        terms = self.also(tuple(views), progress)
        return {**terms, "loss": loss + terms["loss"], "accuracy": accuracy}
