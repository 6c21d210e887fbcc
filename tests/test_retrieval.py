"""The study of retrieval where there is little to look through."""

from types import SimpleNamespace

import torch

from studies import retrieval


def test_fewer_observations_than_are_compared_by_maps():
    """As the held-out ones of a small folder are: all of them are compared."""
    identity = torch.eye(4)
    method = SimpleNamespace(
        latents=lambda x: x, encode=lambda x: x, has_maps=True, spectrum=lambda: None, solve=lambda a, b: identity
    )
    fitted = SimpleNamespace(method=method, settings=SimpleNamespace(method="own"))
    x = torch.randn(retrieval.AGAIN // 4, 4, 3)
    found = dict(retrieval.of_model(fitted, x, x))
    assert len(found) == 4
    for scores in found.values():
        assert torch.equal(scores.argmax(1), torch.arange(len(x)))
