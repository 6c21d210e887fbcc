"""A learned operator, and maps in its basis, as figures show them."""

import torch
from torch import nn

from niso.methods import METHODS
from niso.methods.config import MethodConfig
from niso.methods.evaluation.operator import in_ascending_order, learned_operator
from niso.methods.method import Networks
from tests.methods.evaluation.planted import CHANNELS, POINTS, SIZE, batches, make


def test_maps_are_shown_in_ascending_eigenvalue():
    method = make()
    spectrum = method.spectrum()
    order = spectrum.eigenvalues.argsort()
    assert not torch.equal(order, torch.arange(POINTS))
    x, tx, *_ = next(batches(3))
    tau = method.solve(method.encode(x), method.encode(tx))
    ordered = in_ascending_order(method, tau)
    assert torch.equal(ordered, tau[:, order][:, :, order])
    values = spectrum.eigenvalues[order]
    assert ordered[:, values[:, None] != values].abs().max() < 1e-4  # blocks of the eigenspaces
    same = make("nft")
    assert torch.equal(in_ascending_order(same, tau), tau)


def test_an_operator_is_in_ascending_eigenvalue():
    method = make()
    operator = learned_operator(method)
    values = operator.spectrum.eigenvalues
    assert (values.diff() >= 0).all() and operator.grid == (SIZE, SIZE)
    torch.testing.assert_close(operator.spectrum.operator(), method.spectrum().operator(), rtol=0, atol=1e-4)
    torch.testing.assert_close(operator.mask, (-(values[:, None] - values).abs()).exp())
    assert learned_operator(make("niso-no-operator")).mask is None
    assert learned_operator(make("nft")) is None


def test_an_operator_that_is_a_field_is_drawn_on_a_finer_grid():
    method = METHODS.find("niso")(
        MethodConfig(rank=5, spectrum="field"), Networks(nn.Identity(), nn.Identity(), (SIZE, SIZE), CHANNELS)
    )
    operator, table = learned_operator(method), learned_operator(make())
    assert operator.drawn_grid == (16, 16) and table.drawn_grid == (SIZE, SIZE)
    assert operator.drawn.eigenfunctions.shape == (256, 5) and operator.spectrum.eigenfunctions.shape == (POINTS, 5)
    assert operator.areas.shape == table.areas.shape == (POINTS,)
