"""What compares invariants alone: no map is solved in training."""

import pytest
import torch

from niso import collective, losses
from niso.methods.invariants_alone import InvariantsObjective
from tests.methods.test_methods import images, make


@pytest.mark.parametrize("name", ["contrastive", "vicreg"])
def test_observations_are_decoded_from_coefficients_of_their_own(name):
    method = make(name)
    objective = method.objective()
    assert isinstance(objective, InvariantsObjective)
    views = images(seed=0), images(seed=1)
    terms = objective(views, 0.0)
    a, b = (method.model.encode(x) for x in views)
    errors = [losses.reconstruction(method.model.decode(c), x) for c, x in zip((a, b), views, strict=True)]
    torch.testing.assert_close(terms["reconstruction"], sum(errors))
    torch.testing.assert_close(terms[name], getattr(losses, name)(a, b))
    torch.testing.assert_close(terms["loss"], terms["reconstruction"] + getattr(method.config, name) * terms[name])
    assert set(terms) == {"loss", "reconstruction", name}


def test_processes_share_one_draw_of_the_dropout(monkeypatch):
    method = make("contrastive", spectral_dropout=0.5)
    objective, views = method.objective(), (images(seed=0), images(seed=1))
    torch.manual_seed(3)
    whole = objective(views, 0.0)["reconstruction"]
    parts = []
    monkeypatch.setattr(losses, "global_batch", lambda part: part)
    for rank in range(2):
        monkeypatch.setattr(collective, "process", lambda rank=rank: (rank, 2))
        torch.manual_seed(3)
        part = tuple(collective.local_part(view) for view in views)
        parts.append(objective(part, 0.0)["reconstruction"])
    torch.testing.assert_close(torch.stack(parts).mean(), whole)


@pytest.mark.parametrize("name", ["contrastive", "vicreg"])
def test_nothing_of_maps_is_trained_or_read(name):
    method = make(name)
    method.objective()((images(seed=0), images(seed=1)), 0.0)["loss"].backward()
    learned = {key for key, p in method.model.named_parameters() if p.grad is not None and p.grad.any()}
    assert learned and not any("eigenvalue" in key for key in learned)
    assert not {"equivariance", "relative_equivariance", "multiplicity", "whitened"} & type(method).reads
