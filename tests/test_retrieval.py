"""The study of retrieval where there is little to look through."""

from types import SimpleNamespace
from unittest.mock import NonCallableMock

import torch

from niso.methods.method import Method
from niso.methods.retrieval import CANDIDATES
from studies import retrieval


def test_fewer_observations_than_are_compared_by_maps():
    """As the held-out ones of a small folder are: all of them are compared."""
    identity = torch.eye(4)
    given = {"latents": lambda x: x, "encode": lambda x: x, "spectrum": lambda: None, "solve": lambda a, b: identity}
    method = NonCallableMock(Method, has_maps=True, **given)
    fitted = SimpleNamespace(method=method, settings=SimpleNamespace(method="own"))
    x = torch.randn(CANDIDATES // 4, 4, 3)
    found = dict(retrieval.of_model(fitted, x, x, (CANDIDATES,)))
    assert len(found) == 3
    for scores in found.values():
        assert torch.equal(scores.argmax(1), torch.arange(len(x)))
