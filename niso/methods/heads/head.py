"""What a kind of head must say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from niso.methods.part import Part


class Head(Part, ABC):
    """A kind of classification head that maps leave alone. A new one is one file and one line in `HEADS`."""

    chosen_by = "classifier"
    of_operator: ClassVar[bool] = False
    """Whether it knows an operator's eigenvalues, and is for maps that commute with that; otherwise it is for all
    orthogonal maps."""
    standardises: ClassVar[bool] = False
    """Whether it standardises its features over a batch, which must then hold two observations or more, in one part."""

    @classmethod
    @abstractmethod
    def make(
        cls,
        examples: Float[Tensor, "batch length channels"],
        classes: int,
        config: Any,
        eigenvalues: Float[Tensor, " length"] | None,
    ) -> nn.Module:
        """An untrained head: features (batch, length, channels) → scores (batch, classes).

        Args:
            examples: features like those that it is to classify.
            classes: number of scores.
            config: all settings, a `niso.methods.config.ClassifierConfig`.
            eigenvalues: of the operator that maps commute with; None where there is none, which those `of_operator`
                never meet.
        """
