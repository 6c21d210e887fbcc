"""The part of a batch that each process takes."""

import pytest
import torch

from niso import collective


def test_local_part(monkeypatch):
    batch = torch.arange(12).reshape(6, 2)
    assert collective.process() == (0, 1)
    assert torch.equal(collective.local_part(batch), batch)
    parts = []
    for rank in range(3):
        monkeypatch.setattr(collective, "process", lambda rank=rank: (rank, 3))
        parts.append(collective.local_part(batch))
    assert [len(p) for p in parts] == [2, 2, 2]
    assert torch.equal(torch.cat(parts), batch)
    monkeypatch.setattr(collective, "process", lambda: (0, 4))
    with pytest.raises(ValueError, match="global batch of 6 does not divide evenly among 4 processes"):
        collective.local_part(batch)
