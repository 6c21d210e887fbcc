"""Classifiers of observations: what a method makes of them, and the head that was trained on it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from niso.errors import first_line
from niso.experiments.head import make_head
from niso.experiments.saved import plain_name
from niso.methods.method import Method

HEAD, TUNED = "head.", "tuned."
"""Beginnings of the names of a head's weights, and of those of a model that was trained on together with it, where they
are held beside those of the method's own model."""
BACKBONE, PRETRAINED = "backbone.", "model."
"""Beginnings of the names of the weights of a method's own model, where a head's are held beside them: of one that the
head is trained on as it is, and of one that was trained on together with it. Neither may be empty: `niso.load` takes
all weights whose names begin so for the model's own."""
DECODER = "decoder."


class Classifier(nn.Module):
    """Scores of classes, of observations as networks take them.

    Args:
        method: what features come from: the trained method where the head was trained on it as it is, else one with the
            model that was trained on together with the head, perhaps without its decoder.
        head: of `Method.head_features`.
    """

    def __init__(self, method: Method, head: nn.Module) -> None:
        super().__init__()
        self.method, self.model, self.head = method, method.model, head

    def forward(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch classes"]:
        """Scores (logits)."""
        return self.head(self.method.head_features(x))

    def weights(self, method: Method) -> dict[str, Tensor]:
        """Weights by name, beside those of a method's own model: of the head, and of the classifier's model where that
        is another one, without the decoder, which features do not depend on."""
        held = {f"{HEAD}{name}": tensor for name, tensor in self.head.state_dict().items()}
        if self.model is not method.model:
            tuned = {plain_name(name): tensor for name, tensor in self.model.state_dict().items()}
            held |= {f"{TUNED}{name}": value for name, value in tuned.items() if not name.startswith(DECODER)}
        return held


def trained_classifier(
    method: Method, config: Any, shape: tuple[int, ...], classes: int, tensors: Mapping[str, Tensor]
) -> Classifier | None:
    """The classifier that has these weights, in evaluation mode; None where they are of none.

    Args:
        method: trained.
        config: settings of the run.
        shape: of one observation.
        tensors: those that `Classifier.weights` gave.

    Raises:
        ValueError: they are of another classifier.
    """
    held, tuned = (
        {name.removeprefix(part): tensor for name, tensor in tensors.items() if name.startswith(part)}
        for part in (HEAD, TUNED)
    )
    if not (held and classes):
        return None
    if tuned:
        method = copy.copy(method)
        method.model = copy.deepcopy(method.model).requires_grad_(False).eval()
        method.model.decoder = nn.Identity()
    x = torch.zeros(2, *shape, device=next(method.model.parameters()).device)
    head = make_head(method, config, x, classes)
    try:
        head.load_state_dict(held)
        if tuned:
            method.model.load_state_dict(tuned)
    except RuntimeError as error:
        raise ValueError(f"its classifier has other weights: {first_line(error)}") from error
    return Classifier(method, head.requires_grad_(False).eval())
