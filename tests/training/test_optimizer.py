"""Every part of a spectrum has a learning rate of its own; rotations are retracted into the frame."""

import pytest
import torch
from torch import nn

import niso
from niso.config import Optimisation
from niso.training.optimizer import make_optimizer, set_learning_rates, spectra

OPTIMISATION = Optimisation(
    steps=100,
    warmup_steps=10,
    learning_rate=0.1,
    final_learning_rate=0.0,
    eigenvalue_learning_rate=0.5,
    mass_learning_rate=1e-3,
    eigenfunction_beta2=0.9,
    eigenfunction_eps=1e-12,
    eigenvalues_frozen=0.2,
)


@pytest.fixture
def model():
    spectrum = niso.LearnedSpectrum(6, 6, "shifted", eigenfunctions="rotation")
    return niso.NeuralIsometry(nn.Linear(3, 3), nn.Linear(3, 3), spectrum, norm="l2")


def rates(optimizer):
    return {group["role"]: group["lr"] for group in optimizer.param_groups}


def test_groups_hold_every_parameter_once(model):
    model.decoder.bias.requires_grad_(False)
    optimizer = make_optimizer(model, OPTIMISATION)
    grouped = {id(p): group["role"] for group in optimizer.param_groups for p in group["params"]}
    wanted = {id(p) for p in model.parameters() if p.requires_grad}
    assert grouped.keys() == wanted
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(wanted)
    assert grouped[id(model.spectrum.basis)] == "eigenfunctions"
    assert grouped[id(model.spectrum.eigenvalue_root)] == "eigenvalues"
    assert grouped[id(model.spectrum.mass_root)] == "mass"
    assert grouped[id(model.encoder.weight)] == "network"
    own = next(group for group in optimizer.param_groups if group["role"] == "eigenfunctions")
    assert own["betas"] == (0.9, 0.9) and own["eps"] == 1e-12
    assert spectra(nn.ModuleList([model, nn.Linear(1, 1)])) == [model.spectrum]


def test_a_model_without_a_spectrum_has_one_group():
    optimizer = make_optimizer(nn.Linear(2, 2), OPTIMISATION)
    assert [group["role"] for group in optimizer.param_groups] == ["network"]


def test_learning_rates_keep_their_ratios(model):
    optimizer = make_optimizer(model, OPTIMISATION)
    for step in (0, 9, 30, 99):
        rate = set_learning_rates(optimizer, OPTIMISATION, step)
        assert rate == OPTIMISATION.rate_at(step)
        thawed = 5 * rate if step >= 20 else 0.0
        expected = {"network": rate, "eigenfunctions": rate, "eigenvalues": thawed, "mass": rate / 100}
        assert rates(optimizer) == pytest.approx(expected)


def test_frozen_eigenvalues_do_not_move_and_keep_empty_moments(model):
    optimizer = make_optimizer(model, OPTIMISATION)
    start = model.spectrum.eigenvalue_root.detach().clone()
    for step in range(30):
        model(*torch.randn(2, 4, 6, 3)).loss().backward()
        set_learning_rates(optimizer, OPTIMISATION, step)
        optimizer.step()
        optimizer.zero_grad()
        moved = not torch.equal(model.spectrum.eigenvalue_root, start)
        assert moved == (step >= 20)
        moments = optimizer.state[model.spectrum.eigenvalue_root]
        assert bool(moments["exp_avg"].any()) == bool(moments["exp_avg_sq"].any()) == (step >= 20)
        assert moments["step"].item() == step + 1  # frozen steps count: the first after them are larger


def test_retraction_keeps_the_spectrum_and_empties_the_basis(dtype):
    for points, rank in ((6, 6), (7, 3)):
        spectrum = niso.LearnedSpectrum(points, rank, eigenfunctions="rotation").to(dtype)
        with torch.no_grad():
            spectrum.basis.normal_()
            spectrum.mass_root.uniform_(0.5, 2)
        before = spectrum()
        spectrum.retract_()
        after = spectrum()
        torch.testing.assert_close(after.eigenfunctions, before.eigenfunctions, atol=2e-5, rtol=2e-5)
        assert spectrum.basis.count_nonzero() == 0


def test_polar_spectra_are_not_touched_by_retraction():
    spectrum = niso.LearnedSpectrum(5)
    before = spectrum.basis.detach().clone()
    spectrum.retract_()
    assert torch.equal(spectrum.basis, before)


def test_frame_stays_orthonormal_over_many_steps():
    spectrum = niso.LearnedSpectrum(24, eigenfunctions="rotation")
    for _ in range(2_000):
        with torch.no_grad():
            spectrum.basis.uniform_(-0.1, 0.1)
        spectrum.retract_()
    gram = spectrum.frame.double().mT @ spectrum.frame.double()
    torch.testing.assert_close(gram, torch.eye(24).double(), atol=2e-6, rtol=0)


def test_an_entry_of_the_basis_is_an_angle():
    spectrum = niso.LearnedSpectrum(4, 3, eigenfunctions="rotation").double()
    start, angle = spectrum().eigenfunctions.detach(), 1e-3
    with torch.no_grad():
        spectrum.basis[0, 1], spectrum.basis[1, 0] = angle, -angle
    turned = start.mT @ spectrum().eigenfunctions
    assert turned[0, 1].item() == pytest.approx(angle, rel=1e-5)
    assert turned[1, 0].item() == pytest.approx(-angle, rel=1e-5)
    torch.testing.assert_close(turned[2], torch.eye(3).double()[2])


def test_the_short_way_at_the_frame_has_the_gradient_of_the_long_one():
    spectrum = niso.LearnedSpectrum(6, 4, eigenfunctions="rotation").double()
    weight = torch.randn(6, 4).double()

    def gradient(offset):
        spectrum.basis.grad = None
        with torch.no_grad():
            spectrum.basis.fill_(0.0)
            spectrum.basis[0, 1] = offset
        (spectrum().eigenfunctions * weight).sum().backward()
        return spectrum.basis.grad.clone()

    torch.testing.assert_close(gradient(0.0), gradient(1e-9), atol=1e-7, rtol=1e-7)  # 1e-9 takes the long way


def test_gradient_of_a_rotation():
    spectrum = niso.LearnedSpectrum(5, 3, "shifted", eigenfunctions="rotation").double()
    weight = torch.randn(5, 3).double()

    def value(basis, mass_root):
        parameters = {"basis": basis, "mass_root": mass_root}
        return (torch.func.functional_call(spectrum, parameters, ()).eigenfunctions * weight).sum()

    basis = (0.1 * torch.randn(5, 3)).double().requires_grad_()
    mass_root = torch.rand(5).double().add(0.5).requires_grad_()
    assert torch.autograd.gradcheck(value, (basis, mass_root))


def test_roles_of_ones_own_are_refused(model):
    optimizer = make_optimizer(model, OPTIMISATION)
    optimizer.add_param_group({"params": [torch.zeros(1, requires_grad=True)], "role": "head"})
    with pytest.raises(ValueError, match="role 'head', which is none of network, eigenfunctions, eigenvalues, mass"):
        set_learning_rates(optimizer, OPTIMISATION, 0)
    model.spectrum.roles = lambda: {"values": [model.spectrum.eigenvalue_root]}
    with pytest.raises(ValueError, match="`roles` are some of eigenfunctions, eigenvalues, mass, not values"):
        make_optimizer(model, OPTIMISATION)
