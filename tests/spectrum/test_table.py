"""Spectra stay M-orthonormal whatever an optimiser does, and project as the paper says."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch.autograd import forward_ad

import niso
from niso.spectrum import FieldSpectrum, FixedSpectrum, LearnedSpectrum, Spectrum, rotation
from niso.spectrum.table import LEAST_MASS

PARAMETRISATIONS = ["cumulative", "sorted", "shifted"]


def orthonormality_error(s):
    mass, phi = s.mass.double(), s.eigenfunctions.double()
    return (phi.mT @ (mass[:, None] * phi) - torch.eye(phi.shape[1])).abs().max().item()


@pytest.mark.parametrize(
    "points, rank, optimiser, eigenvalues, eigenfunctions",
    [  # every pair of choices occurs
        (*size, optimiser, PARAMETRISATIONS[(i + j) % 3], ("polar", "rotation")[(i + j) % 2])
        for i, size in enumerate([(12, 12), (12, 5), (12, 1), (1, 1)])
        for j, optimiser in enumerate(["gentle", "huge-adam", "huge-sgd"])
    ],
)
def test_orthonormal_after_any_optimiser_step(points, rank, optimiser, eigenvalues, eigenfunctions, dtype):
    spectrum = LearnedSpectrum(points, rank, eigenvalues, eigenfunctions=eigenfunctions).double()
    spectrum.retract_()  # in float64, for the frame itself to be orthonormal in it
    spectrum.to(dtype)
    huge = 1e4 if eigenfunctions == "polar" else 1.0  # rounding in the Cayley map grows with the angle
    steps = {
        "gentle": lambda p: torch.optim.AdamW(p, lr=1e-2),
        "huge-adam": lambda p: torch.optim.AdamW(p, lr=huge),
        "huge-sgd": lambda p: torch.optim.SGD(p, lr=huge),
    }[optimiser](spectrum.parameters())
    model = niso.NeuralIsometry(torch.nn.Identity(), torch.nn.Identity(), spectrum)
    before = [p.detach().clone() for p in spectrum.parameters()]
    for _ in range(4):
        assert orthonormality_error(spectrum()) < (1e-5 if dtype == torch.float32 else 1e-12)
        steps.zero_grad()
        z, tz = torch.randn(2, 3, points, 4, dtype=dtype)
        model(z, tz).loss().backward()
        assert all(p.grad.isfinite().all() for p in spectrum.parameters())
        steps.step()
        spectrum.retract_()
    s = spectrum()
    assert orthonormality_error(s) < (1e-5 if dtype == torch.float32 else 1e-12)
    assert (s.mass > 0).all() and (s.eigenvalues >= 0).all()
    assert any(not torch.equal(p, q) for p, q in zip(before, spectrum.parameters(), strict=True))


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_the_gradient_of_the_polar_factor_is_damped_as_asked(damping):
    spectrum = LearnedSpectrum(7, 4, damping=damping).double()  # of mass 1, to 1e-8
    weights = torch.randn(7, 4, dtype=torch.float64)
    (found,) = torch.autograd.grad((weights * spectrum().eigenfunctions).sum(), spectrum.basis)
    (expected,) = torch.autograd.grad((weights * niso.polar(spectrum.basis, damping=damping)).sum(), spectrum.basis)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is:DeprecationWarning")  # torch.func.jvp
@pytest.mark.parametrize("points, rank", [(7, 7), (7, 3), (5, 1), (1, 1)])
def test_the_rotation_is_the_cayley_map(points, rank, dtype):
    """Turned by blocks as by the whole skew matrix, and where it is 0, with the same first derivatives."""
    frame = torch.linalg.qr(torch.randn(points, points, dtype=torch.float64)).Q
    basis = torch.randn(points, rank, dtype=torch.float64)

    def whole(basis):
        w = torch.cat([torch.cat([basis[:rank] / 2, basis[rank:]]), basis.new_zeros(points, points - rank)], dim=1)
        w, identity = w - w.mT, torch.eye(points, dtype=w.dtype)
        return frame @ torch.linalg.solve(identity - w / 2, identity + w / 2)

    tolerance = {"atol": 1e-5, "rtol": 0} if dtype == torch.float32 else {"atol": 1e-12, "rtol": 0}
    turned = rotation.rotated(frame.to(dtype), basis.to(dtype))
    torch.testing.assert_close(turned.double(), whole(basis)[:, :rank], **tolerance)
    bases = torch.stack([basis, torch.zeros_like(basis)]).to(dtype)
    several = torch.func.vmap(lambda angles: rotation.rotated(frame.to(dtype), angles))(bases)
    torch.testing.assert_close(several, torch.stack([turned, frame[:, :rank].to(dtype)]), **tolerance)
    moved, angles = frame.to(dtype), basis.to(dtype)
    rotation.retract_(moved, angles)
    torch.testing.assert_close(moved.double(), whole(basis), **tolerance)
    assert not angles.any()
    g, zero = torch.randn(points, rank, dtype=torch.float64), torch.zeros_like(basis, requires_grad=True)
    (expected,) = torch.autograd.grad(whole(zero)[:, :rank], zero, g)
    start = torch.zeros(points, rank, dtype=dtype, requires_grad=True)
    value = rotation.rotated(frame.to(dtype), start)
    torch.testing.assert_close(value.double(), frame[:, :rank], **tolerance)
    (found,) = torch.autograd.grad(value, start, g.to(dtype))
    torch.testing.assert_close(found.double(), expected, **tolerance)
    tangent = torch.func.jvp(lambda b: rotation.rotated(frame, b), (torch.zeros_like(basis),), (basis,))[1]
    torch.testing.assert_close((tangent * g).sum(), (expected * basis).sum())
    with forward_ad.dual_level():
        value = rotation.rotated(frame, forward_ad.make_dual(torch.zeros_like(basis), basis))
        torch.testing.assert_close((forward_ad.unpack_dual(value).tangent * g).sum(), (expected * basis).sum())
    slopes = torch.func.vmap(torch.func.grad(lambda b: (rotation.rotated(frame, b) * g).sum()))(bases.double())
    torch.testing.assert_close(slopes[1], expected)


def test_zero_parameters_still_give_a_spectrum():
    spectrum = LearnedSpectrum(6, 3)
    with torch.no_grad():
        for p in spectrum.parameters():
            p.zero_()
    s = spectrum()
    assert orthonormality_error(s) < 1e-5
    torch.testing.assert_close(s.mass, torch.full((6,), 1e-8))
    (s.eigenfunctions.square().sum() + s.eigenvalues.sum()).backward()
    assert all(p.grad.isfinite().all() for p in spectrum.parameters())


@pytest.mark.parametrize("eigenvalues", PARAMETRISATIONS)
def test_eigenvalue_parametrisations(eigenvalues):
    spectrum = LearnedSpectrum(8, 8, eigenvalues)
    with torch.no_grad():
        spectrum.eigenvalue_root.copy_(torch.tensor([2.0, -1.0, 3.0, 0.0, 1.0, -2.0, 0.5, 4.0]))
    expected = {
        "cumulative": [4.0, 5.0, 14.0, 14.0, 15.0, 19.0, 19.25, 35.25],
        "sorted": [0.0, 0.25, 1.0, 1.0, 4.0, 4.0, 9.0, 16.0],
        "shifted": [4.0, 1.0, 5.0, 2.0, 3.0, 0.0, 2.5, 6.0],
    }[eigenvalues]
    assert spectrum().eigenvalues.tolist() == expected


@pytest.mark.parametrize("kind", [LearnedSpectrum, FieldSpectrum, FixedSpectrum])
def test_eigenvalues_alone_are_those_of_the_spectrum(kind, monkeypatch):
    if kind is FixedSpectrum:
        spectrum = FixedSpectrum(*(part.detach() for part in LearnedSpectrum(9, 4)()))
    else:
        spectrum = LearnedSpectrum(9, 4) if kind is LearnedSpectrum else FieldSpectrum(torch.rand(9, 2), 4)
    expected = spectrum().eigenvalues
    for name in ("table.polar", "field.inverse_root"):  # no decomposition is needed
        monkeypatch.setattr(f"niso.spectrum.{name}", None)
    assert torch.equal(spectrum.eigenvalues_alone(), expected)


@pytest.mark.parametrize("eigenfunctions", ["polar", "rotation"])
@pytest.mark.parametrize(("points", "rank"), [(12, 5), (6, 6), (1, 1)])
def test_eigenfunctions_start_where_they_are_asked_to(points, rank, eigenfunctions, dtype):
    functions = torch.randn(points, rank, dtype=dtype)
    spectrum = LearnedSpectrum(points, rank, eigenfunctions=eigenfunctions).to(dtype)
    spectrum.start_eigenfunctions_at_(functions)
    torch.testing.assert_close(spectrum().eigenfunctions, niso.polar(functions), atol=1e-5, rtol=0)
    if eigenfunctions == "rotation":
        torch.testing.assert_close(spectrum.frame.mT @ spectrum.frame, torch.eye(points, dtype=dtype))
    else:
        assert spectrum.basis.square().mean().sqrt().item() == pytest.approx(0.01)  # as that of noise


@pytest.mark.parametrize("mass_first", [True, False])
@pytest.mark.parametrize("eigenfunctions", ["polar", "rotation"])
def test_eigenfunctions_start_with_a_mass(eigenfunctions, mass_first, dtype):
    """They are M-orthonormal, and span what they are asked to, whichever starts first."""
    functions, mass = torch.randn(9, 4, dtype=dtype), torch.linspace(0.2, 3, 9, dtype=dtype)
    spectrum = LearnedSpectrum(9, 4, eigenfunctions=eigenfunctions).to(dtype)
    starts = [(spectrum.start_mass_at_, mass), (spectrum.start_eigenfunctions_at_, functions)]
    for start, at in starts if mass_first else reversed(starts):
        start(at)
    found = spectrum()
    torch.testing.assert_close(found.mass, mass, atol=1e-6, rtol=1e-6)
    assert niso.metrics.principal_angles(mass, found.eigenfunctions, functions).max() < 1e-3
    root = mass.sqrt()[:, None]
    orthonormal = root * found.eigenfunctions
    torch.testing.assert_close(orthonormal.mT @ orthonormal, torch.eye(4, dtype=dtype), atol=1e-5, rtol=0)
    if mass_first:
        torch.testing.assert_close(orthonormal, niso.polar(root * functions), atol=1e-5, rtol=0)


def test_a_small_mass_starts_where_it_is_asked_to(dtype):
    mass = torch.tensor([1e-7, 1e-6, 1e-3, 1, 1e3], dtype=dtype)
    spectrum = LearnedSpectrum(5, 2).to(dtype)
    assert spectrum.start_mass_at_(mass)
    torch.testing.assert_close(spectrum().mass, mass, atol=0, rtol=1e-5)
    spectrum.start_mass_at_(mass * 1e-9)
    assert (spectrum().mass[:3] > LEAST_MASS).all() and (spectrum.mass_root > 0).all()  # and can grow


@pytest.mark.parametrize("eigenfunctions", ["polar", "rotation"])
def test_eigenfunctions_do_not_start_at_dependent_functions(eigenfunctions, dtype):
    spectrum = LearnedSpectrum(32, 8, eigenfunctions=eigenfunctions).to(dtype)
    before = spectrum.basis.clone()
    planted = torch.randn(32, 2, dtype=dtype) @ torch.randn(2, 8, dtype=dtype)
    for functions in (planted, torch.zeros(32, 8, dtype=dtype), torch.full((32, 8), torch.nan, dtype=dtype)):
        with pytest.raises(ValueError, match="functions must be finite and linearly independent"):
            spectrum.start_eigenfunctions_at_(functions)
    assert torch.equal(spectrum.basis, before)
    near = torch.linalg.qr(torch.randn(32, 8, dtype=dtype)).Q
    near[:, 0] = near[:, 1] + 1e-3 * near[:, 0]  # nearly dependent, but not by rounding
    spectrum.start_eigenfunctions_at_(1e-6 * near)


def test_initial_scales():
    rank = 400
    cumulative, sorted_, shifted = (LearnedSpectrum(500, rank, e) for e in PARAMETRISATIONS)
    assert cumulative.eigenvalue_root.std().item() == pytest.approx(1 / rank, rel=0.15)
    assert sorted_.eigenvalue_root.std().item() == pytest.approx(1, rel=0.15)
    torch.testing.assert_close(shifted().eigenvalues, torch.linspace(0, 1, rank))
    assert cumulative.basis.std().item() == pytest.approx(0.01, rel=0.02)
    assert cumulative.mass_root.tolist() == [1.0] * 500


@given(points=st.integers(1, 9), data=st.data())
def test_projection_laws(points, data):
    rank = data.draw(st.integers(1, points))
    batch = data.draw(st.lists(st.integers(0, 3), max_size=2))
    spectrum = LearnedSpectrum(points, rank).double()
    with torch.no_grad():
        spectrum.mass_root.uniform_(0.3, 2)
    s = spectrum()
    a, z = torch.randn(*batch, rank, 2).double(), torch.randn(*batch, points, 2).double()
    torch.testing.assert_close(s.project(s.unproject(a)), a)
    projected = s.unproject(s.project(z))
    torch.testing.assert_close(s.unproject(s.project(projected)), projected)
    residual = s.eigenfunctions.mT @ (s.mass[:, None] * (z - projected))
    torch.testing.assert_close(residual, torch.zeros_like(residual))
    if rank == points:
        torch.testing.assert_close(projected, z)
        energy = (s.mass[:, None] * z.square()).sum((-2, -1))
        torch.testing.assert_close(s.project(z).square().sum((-2, -1)), energy)  # Parseval


def test_operator_and_spatial_maps():
    s = LearnedSpectrum(7, 7, "sorted").double()()
    omega = s.operator()
    torch.testing.assert_close(omega @ s.eigenfunctions, s.eigenfunctions * s.eigenvalues)
    torch.testing.assert_close(s.mass[:, None] * omega, (s.mass[:, None] * omega).mT)  # M-self-adjoint
    tau = torch.linalg.qr(torch.randn(3, 7, 7).double()).Q
    spatial = s.spatial_map(tau)
    torch.testing.assert_close(spatial.mT @ torch.diag(s.mass) @ spatial, torch.diag(s.mass).expand(3, 7, 7))
    z = torch.randn(3, 7, 2).double()
    torch.testing.assert_close(spatial @ z, s.unproject(tau @ s.project(z)))


def test_full_precision_under_autocast_and_in_half_precision_modules():
    spectrum = LearnedSpectrum(40, 10)
    with torch.no_grad():
        spectrum.mass_root.uniform_(0.3, 2)
    s = spectrum()
    z, tau = torch.randn(2, 40, 3), torch.linalg.qr(torch.randn(10, 10)).Q
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = spectrum()
        for value, reference in [
            (inside.eigenfunctions, s.eigenfunctions),
            (inside.project(z), s.project(z)),
            (inside.project(z.bfloat16()), s.project(z.bfloat16().float())),
            (inside.operator(), s.operator()),
            (inside.spatial_map(tau), s.spatial_map(tau)),
            (inside.unproject(tau), s.unproject(tau)),
        ]:
            assert value.dtype == torch.float32
            torch.testing.assert_close(value, reference)
    low = spectrum.bfloat16()()
    assert {part.dtype for part in low} == {torch.float32}
    assert orthonormality_error(low) < 1e-5
    assert s.project(z.double()).dtype == torch.float64
    seen = torch.rand(2, 40)
    weighted = s.project(z.double(), seen)
    assert weighted.dtype == torch.float64
    torch.testing.assert_close(weighted.float(), s.project(z, seen))


def test_rotations_are_retracted_under_autocast_and_in_half_precision():
    spectrum = LearnedSpectrum(20, 6, eigenfunctions="rotation")
    with torch.no_grad():
        spectrum.basis.normal_(std=0.1)
    before = spectrum().eigenfunctions
    with torch.autocast("cpu", dtype=torch.bfloat16):
        spectrum.retract_()
    torch.testing.assert_close(spectrum().eigenfunctions, before)
    half = spectrum.bfloat16()
    half.retract_()
    torch.testing.assert_close(half().eigenfunctions, before, atol=0.02, rtol=0)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="rank must be at least 1, got 0"):
        LearnedSpectrum(4, 0)
    with pytest.raises(ValueError, match="rank 5 must lie between 1 and the number of points, 4"):
        LearnedSpectrum(4, 5)
    with pytest.raises((ValueError, TypeCheckError)):
        LearnedSpectrum(4, 2, "increasing")
    s = LearnedSpectrum(4, 2)()
    with pytest.raises(ValueError, match=r"latents must be \(…, points, channels\) with points 4, not \(2, 3, 5\)"):
        s.project(torch.randn(2, 3, 5))
    assert isinstance(s, Spectrum)


def test_description_and_defaults():
    spectrum = LearnedSpectrum(5)
    assert (spectrum.points, spectrum.rank) == (5, 5)
    assert "points=5, rank=5, eigenvalues='cumulative'" in repr(spectrum)


# Partial views


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_full_confidence_is_the_plain_projection(dtype):
    torch.manual_seed(0)
    spectrum = LearnedSpectrum(20, 6).to(dtype)()
    z = torch.randn(3, 20, 4, dtype=dtype)
    plain = spectrum.project(z)
    torch.testing.assert_close(spectrum.project(z, torch.ones(3, 20, dtype=dtype)), plain)


def test_functions_in_the_span_are_found_from_a_part_of_their_points():
    torch.manual_seed(0)
    spectrum = LearnedSpectrum(40, 6).double()()
    a = torch.randn(2, 6, 3).double()
    confidence = torch.ones(2, 40).double()
    confidence[:, :15] = 0
    z = spectrum.unproject(a)
    z[:, :15] = 100.0  # whatever was there
    torch.testing.assert_close(spectrum.project(z, confidence, ridge=1e-9), a, rtol=1e-5, atol=1e-5)
    nothing = spectrum.project(z, torch.zeros(2, 40).double())
    assert not nothing.any()


def test_gradients_of_the_weighted_projection():
    torch.manual_seed(0)
    spectrum = LearnedSpectrum(8, 3, "shifted").double()()
    leaves = [part.detach().requires_grad_() for part in spectrum]
    z = torch.randn(2, 8, 2).double().requires_grad_()
    confidence = torch.rand(2, 8).double().requires_grad_()

    def project(m, f, e, z, c):
        return Spectrum(m, f, e).project(z, c, 0.1)

    assert torch.autograd.gradcheck(project, (*leaves, z, confidence))


def test_a_wrong_confidence_is_refused():
    spectrum = LearnedSpectrum(8, 3)()
    z = torch.randn(2, 8, 2)
    with pytest.raises((ValueError, TypeCheckError), match="confidence"):
        spectrum.project(z, torch.ones(8))
    with pytest.raises(ValueError, match="ridge must be positive"):
        spectrum.project(z, torch.ones(2, 8), ridge=0.0)


@pytest.mark.parametrize(
    ("confidence", "ridge", "solved"),
    [
        *((wrong, 0.01, False) for wrong in (-1.0, -0.05, 1.05, float("nan"))),
        (-0.005, 0.001, False),  # what it is added to is not positive definite
        (-0.005, 0.01, True),  # rounding
        (1.005, 0.01, True),
    ],
)
def test_a_projection_that_cannot_be_solved_is_no_number(confidence, ridge, solved):
    spectrum = LearnedSpectrum(8, 3)()
    seen = torch.ones(2, 8)
    seen[0] = confidence
    a = spectrum.project(torch.randn(2, 8, 2), seen, ridge)
    assert a[1].isfinite().all()
    assert (a[0].isfinite() if solved else a[0].isnan()).all()


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("eigenfunctions", ["polar", "rotation"])
def test_half_precision_eigenfunctions_are_orthonormal(half, eigenfunctions):
    spectrum = LearnedSpectrum(24, 12, eigenfunctions=eigenfunctions).to(half)()
    gram = (spectrum.eigenfunctions * spectrum.mass[:, None]).mT @ spectrum.eigenfunctions
    torch.testing.assert_close(gram, torch.eye(12), atol=2e-5, rtol=0)


@pytest.mark.parametrize("call", ["project", "operator", "spatial_map"])
@pytest.mark.parametrize("part, shape", [("mass", (6, 1)), ("eigenvalues", (1,)), ("eigenvalues", (2,))])
def test_parts_that_would_be_broadcast_are_refused(call, part, shape):
    arguments = {"project": [torch.randn(6, 6, 2)], "operator": [], "spatial_map": [torch.eye(3)]}[call]
    spectrum = Spectrum(torch.ones(6), torch.linalg.qr(torch.randn(6, 3)).Q, torch.arange(3.0))
    getattr(spectrum, call)(*arguments)
    with pytest.raises(ValueError, match=f"{part} must be"):
        getattr(spectrum._replace(**{part: torch.ones(shape)}), call)(*arguments)


@pytest.mark.parametrize("method", ["start_mass_at_", "start_eigenfunctions_at_"])
def test_a_rotation_that_is_not_retracted_starts_as_asked(method):
    spectrum = niso.LearnedSpectrum(6, 2, eigenfunctions="rotation").double()
    with torch.no_grad():
        spectrum.basis.add_(0.3 * torch.randn(6, 2))
    before = spectrum().eigenfunctions
    getattr(spectrum, method)(torch.rand(6).double() + 0.5 if method == "start_mass_at_" else before)
    found = spectrum()
    root = found.mass.sqrt()[:, None]
    spans = [torch.linalg.qr(root * functions).Q for functions in (before, found.eigenfunctions)]
    assert torch.linalg.svdvals(spans[0].mT @ spans[1]).min() > 1 - 1e-9


def test_derivatives_of_a_retracted_rotation_can_be_differentiated():
    spectrum, weights = niso.LearnedSpectrum(6, 3, eigenfunctions="rotation").double(), torch.randn(6, 3).double()
    direction = torch.randn(6, 3).double()

    def gradient(basis, again=False):
        functions = torch.func.functional_call(spectrum, {"basis": basis}).eigenfunctions
        return torch.autograd.grad((functions.square() * weights).sum(), basis, create_graph=again)[0]

    start = torch.zeros(6, 3, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad((gradient(start, again=True) * direction).sum(), start)
    step = 1e-5
    after, before = (gradient((sign * step * direction).requires_grad_()) for sign in (1, -1))
    torch.testing.assert_close(found, (after - before) / (2 * step), rtol=1e-6, atol=1e-7)


def test_a_rotation_that_becomes_double_is_orthonormal_in_double():
    spectrum = niso.LearnedSpectrum(20, 20, eigenfunctions="rotation").double()
    before = spectrum().eigenfunctions
    assert orthonormality_error(spectrum()) < 1e-12
    spectrum.retract_()
    torch.testing.assert_close(spectrum().eigenfunctions, before, rtol=0, atol=1e-12)
