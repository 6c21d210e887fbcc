"""Möbius transformations: group laws, the action against its formula, conformality, warps."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from niso.geometry import mobius, rotations
from niso.geometry.domains import equirectangular, sphere
from niso.geometry.domains.equirectangular import Layout
from niso.geometry.mobius import MobiusTransformations
from niso.geometry.rotation_group import rotation_matrices

seeds = st.integers(0, 1000)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def maps(count: int, seed: int = 0, deviation: float = 1.0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    noise = torch.randn(count, 8, generator=generator(seed), dtype=dtype)
    direction = torch.nn.functional.normalize(noise[:, :3], dim=-1)
    return mobius.rotation(noise[:, 4:]) @ mobius.boost(direction * (deviation / 2 * noise[:, 3:4]).tanh())


def warp(images: torch.Tensor, g: torch.Tensor, layout: Layout = "driscoll-healy") -> torch.Tensor:
    return MobiusTransformations(layout=layout).act(images, g)


def directions(count: int, seed: int = 0) -> torch.Tensor:
    points = torch.randn(count, 3, generator=generator(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(points, dim=-1)


def smooth(points: torch.Tensor) -> torch.Tensor:
    return points[..., 0] * points[..., 1] + points[..., 2] - 0.5 * points[..., 0]


def stretch(g: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Factor by which g stretches lengths at unit vectors: 1 / t of the light ray (t, q) that (1, p) goes to."""
    row = mobius.lorentz(g)[..., :1, :]
    return 1 / (row[..., 0] + (row[..., 1:] @ points.mT)[..., 0, :])


@given(seeds)
def test_the_action_is_the_fractional_linear_one(seed):
    g, p = maps(3, seed), directions(20, seed)
    a, b, c, d = (entry[:, None] for entry in g.flatten(1).unbind(1))

    def stereographic(q):
        return torch.complex(q[..., 0], q[..., 1]) / (1 - q[..., 2])

    zeta = stereographic(p)
    torch.testing.assert_close(stereographic(mobius.act(g, p)), (a * zeta + b) / (c * zeta + d), rtol=1e-6, atol=1e-6)


@given(seeds)
def test_group_laws(seed):
    g, h = maps(3, seed), maps(3, seed + 1)
    p = directions(20, seed)
    torch.testing.assert_close(mobius.act(g @ h, p), mobius.act(g, mobius.act(h, p)))
    torch.testing.assert_close(mobius.act(MobiusTransformations().inverse(g), mobius.act(g, p)), p.expand(3, 20, 3))
    torch.testing.assert_close(MobiusTransformations().inverse(g) @ g, torch.eye(2, dtype=g.dtype).expand(3, 2, 2))
    torch.testing.assert_close(mobius.act(-g, p), mobius.act(g, p))
    torch.testing.assert_close(mobius.lorentz(g @ h), mobius.lorentz(g) @ mobius.lorentz(h))


@given(seeds)
def test_points_stay_on_the_sphere_and_lorentz_transformations_keep_their_metric(seed):
    g = maps(4, seed)
    torch.testing.assert_close(torch.linalg.det(g), torch.ones(4, dtype=g.dtype))
    moved = mobius.act(g, directions(20, seed))
    torch.testing.assert_close(moved.norm(dim=-1), torch.ones(4, 20, dtype=torch.float64))
    transform, metric = mobius.lorentz(g), torch.diag(torch.tensor([-1.0, 1, 1, 1])).double()
    torch.testing.assert_close(transform.mT @ metric @ transform, metric.expand(4, 4, 4))
    assert (transform[:, 0, 0] >= 1).all()


@given(seeds)
def test_maps_are_conformal(seed):
    """The Jacobian on the tangent plane is the stretch times an isometry that keeps the orientation."""
    g, p = maps(1, seed)[0], directions(1, seed)[0]
    normal = torch.eye(3, dtype=torch.float64)[int(p.abs().argmin())]
    first = torch.nn.functional.normalize(torch.linalg.cross(p, normal), dim=0)
    tangents = torch.stack([first, torch.linalg.cross(p, first)], -1)

    def onto_sphere(q):
        return mobius.act(g, torch.nn.functional.normalize(q, dim=0)[None])[0]

    jacobian = torch.autograd.functional.jacobian(onto_sphere, p) @ tangents
    factor = stretch(g, p[None])[0]
    torch.testing.assert_close(jacobian.mT @ jacobian, factor.square() * torch.eye(2, dtype=torch.float64))
    image = mobius.act(g, p[None])[0]
    assert torch.linalg.det(torch.cat([image[:, None], jacobian], -1)) > 0


def test_stretches_obey_the_chain_rule_and_conserve_area():
    g, h, p = maps(4), maps(4, 1), directions(20)
    chain = stretch(g, mobius.act(h, p)) * stretch(h, p)
    torch.testing.assert_close(stretch(g @ h, p), chain)
    points = equirectangular.directions(64, 64, "driscoll-healy").flatten(0, 1)
    areas = stretch(g, points).square() @ sphere.quadrature_weights(64)
    torch.testing.assert_close(areas, torch.full((4,), 4 * math.pi, dtype=torch.float64), rtol=1e-3, atol=0)


@given(seeds)
def test_rotations_are_those_of_the_sphere(seed):
    quaternions = torch.randn(3, 4, generator=generator(seed), dtype=torch.float64)
    g, p = mobius.rotation(quaternions), directions(20, seed)
    torch.testing.assert_close(mobius.act(g, p), p @ rotation_matrices(quaternions).mT)
    torch.testing.assert_close(stretch(g, p), torch.ones(3, 20, dtype=torch.float64))


@given(seeds, st.floats(0.01, 0.95))
def test_boosts_are_the_stated_map(seed, length):
    c, p = length * directions(3, seed), directions(20, seed + 1)
    g = mobius.boost(c)
    shifted = p + c[:, None]
    expected = (1 - length**2) * shifted / shifted.square().sum(-1, keepdim=True) + c[:, None]
    torch.testing.assert_close(mobius.act(g, p), expected)
    torch.testing.assert_close(MobiusTransformations().inverse(g), mobius.boost(-c))
    ends = torch.stack([c / length, -c / length], 1)
    ratio = (1 - length) / (1 + length)
    factors = torch.tensor([[ratio, 1 / ratio]], dtype=torch.float64).expand(3, 2)
    torch.testing.assert_close(stretch(g, ends), factors)


def test_a_factor_does_not_change_the_transformation():
    g, factor = maps(3), torch.tensor([2.0 - 1j, -3.0, 0.1j], dtype=torch.complex128)
    torch.testing.assert_close(mobius.act(factor[:, None, None] * g, directions(9)), mobius.act(g, directions(9)))


def test_samples_have_the_stated_deviation_and_no_preferred_direction():
    g = MobiusTransformations(deviation=0.7).sample(4000, generator()).to(torch.complex128)
    rapidity = mobius.lorentz(g)[:, 0, 0].clamp_min(1).acosh()
    assert rapidity.square().mean().sqrt().item() == pytest.approx(0.7, rel=0.05)
    images = mobius.act(g, directions(1))[:, 0]
    assert images.mean(0).abs().max() < 0.05
    assert stretch(maps(5, deviation=0.0), directions(9)).sub(1).abs().max() < 1e-12


def test_strong_maps_are_accurate_in_float32(dtype):
    """Everything lies near one point, and nothing is infinite."""
    g = mobius.boost(torch.tensor([[0.0, 0.0, 0.999]], dtype=dtype))
    p = torch.cat([directions(50), torch.eye(3).double(), -torch.eye(3).double()]).to(dtype)
    moved = mobius.act(g, p)
    assert moved.dtype == dtype and moved.isfinite().all()
    torch.testing.assert_close(moved.norm(dim=-1), torch.ones(1, 56, dtype=dtype), rtol=2e-3, atol=0)
    poles = torch.tensor([[0.0, 0, 1], [0, 0, -1]], dtype=dtype)
    torch.testing.assert_close(mobius.act(g, poles)[0], poles, rtol=0, atol=2e-3)


@pytest.mark.parametrize("layout", ["driscoll-healy", "poles"])
def test_warps_move_functions_with_the_sphere(layout):
    """(gf)(p) = f(g⁻¹p): at first by a formula, then warp after warp, to second order in the spacing."""
    g, h = maps(2, deviation=0.5), maps(2, 1, deviation=0.5)
    errors = []
    for size in (32, 64):
        points = equirectangular.directions(size, 2 * size, layout)
        images = smooth(points).expand(2, 1, -1, -1)
        once = warp(images, g, layout)
        places = mobius.act(MobiusTransformations().inverse(g), points.flatten(0, 1)).unflatten(1, (size, 2 * size))
        assert (once[:, 0] - smooth(places)).abs().max() < 20 / size**1.5
        twice = warp(once, h, layout)
        errors.append((twice - warp(images, h @ g, layout)).abs().mean().item())
    assert errors[0] < 0.01 and errors[0] / errors[1] > 2.5


def test_warp_by_rotations_is_resampling(dtype, tolerance):
    quaternions = torch.randn(3, 4, generator=generator(), dtype=torch.float64)
    images = torch.randn(3, 2, 8, 8, generator=generator(), dtype=torch.float64)
    resampling = rotations.Rotations(8, 1, exact=False)
    rotated = resampling.act(images.flatten(2).mT, rotation_matrices(quaternions)).mT.unflatten(-1, (8, 8))
    warped = warp(images.to(dtype), mobius.rotation(quaternions.to(dtype)))
    assert warped.dtype == dtype
    torch.testing.assert_close(warped, rotated.to(dtype), atol=20 * tolerance, rtol=0)


def test_one_transformation_serves_a_batch():
    images, g = torch.randn(3, 2, 6, 8, dtype=torch.float64), maps(1)
    each = torch.cat([warp(image[None], g) for image in images])
    torch.testing.assert_close(warp(images, g), each)


def test_warp_is_differentiable_in_functions_and_transformations():
    images = torch.randn(1, 1, 4, 6, dtype=torch.float64, requires_grad=True)
    centre = torch.tensor([[0.2, -0.1, 0.3]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda i, c: warp(i, mobius.boost(c)), (images, centre))


def test_strength_is_the_mean_angle_of_the_axes():
    action, turn = MobiusTransformations(), 0.8  # about z, so that four of the six points move by this angle
    about_z = mobius.rotation(torch.tensor([[math.cos(turn / 2), 0, 0, math.sin(turn / 2)]], dtype=torch.float64))
    assert action.strength(about_z).item() == pytest.approx(math.degrees(turn) * 4 / 6)
    towards_z = mobius.boost(torch.tensor([[0, 0, 0.3]], dtype=torch.float64))  # the equator rises, the poles stay
    assert action.strength(towards_z).item() == pytest.approx(math.degrees(math.asin(2 * 0.3 / (1 + 0.3**2))) * 4 / 6)
    assert (action.strength(maps(20)) > 0).all()
    torch.testing.assert_close(action.strength(-about_z), action.strength(about_z))


def test_the_action_samples_the_numbers_of_earlier_records():
    sampled = MobiusTransformations(0.7).sample(5, generator())
    assert sampled.dtype == torch.complex64
    noise = torch.randn(5, 8, generator=generator())
    direction = noise[:, :3] / noise[:, :3].norm(dim=-1, keepdim=True)
    by_hand = mobius.rotation(noise[:, 4:]) @ mobius.boost(direction * (0.35 * noise[:, 3:4]).tanh())
    torch.testing.assert_close(sampled, by_hand)


def test_the_action_computes_in_the_precision_of_the_images():
    images, g = torch.randn(2, 1, 6, 8, generator=generator()), maps(2)
    for dtype, kind in ((torch.float32, torch.complex64), (torch.float64, torch.complex128)):
        warped = MobiusTransformations(layout="poles").act(images.to(dtype), g)
        assert torch.equal(warped, warp(images.to(dtype), g.to(kind), "poles"))


@pytest.mark.parametrize("length", [0.9, 0.999, 0.99999, 1 - 1e-7])
def test_strong_boosts_move_unit_vectors_to_unit_vectors(length):
    axis = torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)
    boost = mobius.boost(length * axis).to(torch.complex64)
    directions = torch.cat([-axis[None], axis[None], torch.randn(50, 3, dtype=torch.float64)]).float()
    directions = directions / directions.norm(dim=-1, keepdim=True)
    moved = mobius.act(boost, directions)
    torch.testing.assert_close(moved.norm(dim=-1), torch.ones(52))
    assert (moved[1:] @ axis.float() > -1 + 1e-6).all()


def test_transformations_of_any_strength_have_determinant_1(generator):
    drawn = MobiusTransformations(deviation=4.0).sample(500, generator)
    assert drawn.isfinite().all() and drawn.dtype == torch.complex64
    size = drawn.abs().square().sum((-2, -1))
    assert ((torch.linalg.det(drawn.to(torch.complex128)) - 1).abs() < 1e-6 * size).all()
