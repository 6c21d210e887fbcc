"""Homographies: group laws, warps against kornia and calculus, and the published distributions."""

from __future__ import annotations

import inspect
import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from niso.geometry import homographies
from niso.geometry.affine import AffineMaps
from niso.geometry.homographies import Homographies, PlaneMaps

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}
BOTH = pytest.mark.parametrize("dtype", TOLERANCE)
SWAP = torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=torch.float64)  # (row, column) ↔ (x, y)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def coefficients(count: int = 16, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return homographies.sample_coefficients(count, generator(seed)).to(dtype)


def warp(images: torch.Tensor, matrices: torch.Tensor, background: float = 0.0) -> torch.Tensor:
    return Homographies(background).act(images, matrices)


def smooth_images(size: int, count: int = 16) -> torch.Tensor:
    """Blobs that all but vanish at the border: (count, 1, size, size)."""
    line = torch.linspace(-1, 1, size, dtype=torch.float64)
    centre = 0.1 * torch.randn(count, 2, 1, 1, dtype=torch.float64, generator=generator())
    return torch.exp(-20 * ((line[:, None] - centre[:, :1]) ** 2 + (line - centre[:, 1:]) ** 2))


@BOTH
def test_algebra_is_traceless_in_the_stated_basis_and_invertible(dtype: torch.dtype) -> None:
    basis = homographies.algebra(torch.eye(8, dtype=dtype))
    third = torch.eye(3, dtype=dtype) / 3
    for element, (row, column) in zip(
        basis, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)], strict=True
    ):
        unit = torch.zeros(3, 3, dtype=dtype)
        unit[row, column] = 1
        torch.testing.assert_close(element, unit - third if row == column else unit)
    x = coefficients(dtype=dtype)
    torch.testing.assert_close(homographies.coefficients_of(homographies.algebra(x)), x)


@BOTH
def test_group_laws(dtype: torch.dtype) -> None:
    x, tolerance = coefficients(dtype=dtype), TOLERANCE[dtype]
    h = homographies.matrix(x)
    identity = torch.eye(3, dtype=dtype).expand_as(h)
    torch.testing.assert_close(h @ homographies.matrix(-x), identity, atol=tolerance, rtol=0)
    torch.testing.assert_close(h @ h, homographies.matrix(2 * x), atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(torch.linalg.det(h), torch.ones(16, dtype=dtype), atol=tolerance, rtol=0)
    assert torch.equal(homographies.matrix(torch.zeros(8, dtype=dtype)), identity[0])


def test_ad_is_the_lie_bracket_and_satisfies_jacobi() -> None:
    v, w = coefficients(seed=1), coefficients(seed=2)
    a, b = homographies.algebra(v), homographies.algebra(w)
    bracket = (homographies.ad(v) @ w[..., None])[..., 0]
    torch.testing.assert_close(homographies.algebra(bracket), a @ b - b @ a)
    left, right = homographies.ad(v), homographies.ad(w)
    torch.testing.assert_close(homographies.ad(bracket), left @ right - right @ left)
    torch.testing.assert_close(bracket, -(homographies.ad(w) @ v[..., None])[..., 0])


def test_dvol_is_the_product_over_roots_and_even() -> None:
    v = coefficients(64)
    eigenvalues = torch.linalg.eigvals(homographies.algebra(v))
    roots = (eigenvalues[:, :, None] - eigenvalues[:, None, :])[:, ~torch.eye(3, dtype=torch.bool)]
    expected = ((1 - (-roots).exp()) / roots).prod(-1).abs()
    torch.testing.assert_close(homographies.dvol(v), expected, rtol=1e-6, atol=0)  # ten terms of the series
    torch.testing.assert_close(homographies.dvol(v), homographies.dvol(-v))
    assert homographies.dvol(torch.zeros(8, dtype=torch.float64)) == 1


@pytest.mark.slow
def test_walks_have_half_the_variance_and_almost_all_stop_at_once() -> None:
    scales = torch.tensor(homographies.SCALES, dtype=torch.float64)
    count = 40_000
    walk = homographies.walk_coefficients(count, generator()) / scales
    assert walk.dtype == torch.float64
    # 0.9 % go on: variance (2 + 0.009)/4
    torch.testing.assert_close(walk.var(0), torch.full((8,), 0.502, dtype=torch.float64), atol=0.02, rtol=0)
    assert walk.mean(0).abs().max() < 5 * math.sqrt(0.5 / count)
    assert (walk**3).mean(0).abs().max() < 5 * math.sqrt(15 / 8 / count)  # symmetric
    first = coefficients(count) / 2
    second = first + coefficients(count, seed=1) / 2
    stop = (homographies.dvol(-second) / homographies.dvol(-first)).clamp(max=1).mean()
    assert abs(stop - 0.991) < 0.0005


def test_walks_go_on_until_they_are_let_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    densities = iter([torch.tensor([2.0, 0.0]), torch.tensor([1.0, 1.0]), torch.tensor([1.0]), torch.tensor([1.0])])
    monkeypatch.setattr(homographies, "dvol", lambda _: next(densities))
    random = generator()
    start = homographies.sample_coefficients(2, random) / 2
    first = start + homographies.sample_coefficients(2, random) / 2
    torch.rand(2, generator=random, dtype=torch.float64)
    second = first[1] + homographies.sample_coefficients(1, random)[0] / 2  # the first stopped: 2 > chance; not 0
    walk = homographies.walk_coefficients(2, generator())
    torch.testing.assert_close(walk, torch.stack((first[0], second)))


def test_rates_of_corners_behind_the_horizon() -> None:
    corners = torch.tensor([[a, b, 1.0] for a in (-1, 1) for b in (-1, 1)], dtype=torch.float64)
    x = coefficients(40_000)
    depth = torch.stack([(corners @ homographies.matrix(-power * x).mT)[..., 2] for power in (1, 2)])
    once, twice = (depth <= 0).any(-1).double().mean(-1)
    assert once < 4e-4  # 0.01 %
    assert abs(twice - 0.078) < 0.004  # 7.8 %


@BOTH
def test_warp_by_identity_and_by_pixel_shift(dtype: torch.dtype) -> None:
    images = torch.rand(2, 3, 5, 9, dtype=dtype, generator=generator())
    identity = torch.eye(3, dtype=dtype)
    torch.testing.assert_close(warp(images, identity[None]), images, atol=TOLERANCE[dtype] / 10, rtol=0)
    moved = identity.clone()
    moved[0, 2], moved[1, 2] = 2 * 2 / 4, -1 * 2 / 8  # 2 rows down, 1 column to the left
    expected = torch.full_like(images, -1)
    expected[:, :, 2:, :-1] = images[:, :, :-2, 1:]
    for scale in (1, 1e-3, 1e4, -1):  # -1 puts all behind the horizon
        warped = warp(images, scale * moved.expand(2, 3, 3), background=-1.0)
        wanted = expected if scale > 0 else torch.full_like(images, -1)
        torch.testing.assert_close(warped, wanted, atol=TOLERANCE[dtype], rtol=0)


def test_warp_by_a_reflection() -> None:
    images = torch.rand(1, 1, 6, 6, dtype=torch.float64)
    mirror = torch.diag(torch.tensor([1.0, -1, 1], dtype=torch.float64))[None]
    torch.testing.assert_close(warp(images, mirror), images.flip(-1))


def test_warps_compose_from_the_left_and_undo() -> None:
    images = smooth_images(161)
    x, y = 0.3 * coefficients(seed=3), 0.3 * coefficients(seed=4)
    a, b = homographies.matrix(x), homographies.matrix(y)
    twice = warp(warp(images, a), b)
    torch.testing.assert_close(twice, warp(images, b @ a), atol=5e-3, rtol=0)
    assert (twice - warp(images, a @ b)).abs().max() > 0.05  # the other order is another map
    undone = warp(warp(images, a), homographies.matrix(-x))
    torch.testing.assert_close(undone, images, atol=5e-3, rtol=0)


def test_warp_moves_a_point_to_its_image_under_h() -> None:
    line = torch.linspace(-1, 1, 201, dtype=torch.float64)
    h = homographies.matrix(0.5 * coefficients())
    point = torch.tensor([0.2, -0.3, 1], dtype=torch.float64)
    blob = torch.exp(-200 * ((line[:, None] - point[0]) ** 2 + (line - point[1]) ** 2)).expand(16, 1, -1, -1)
    warped = warp(blob, h)[:, 0]
    target = h @ point
    peak = warped.flatten(1).argmax(1)
    found = torch.stack((line[peak // 201], line[peak % 201]), dim=-1)
    torch.testing.assert_close(found, target[:, :2] / target[:, 2:], atol=0.011, rtol=0)


@BOTH
def test_warp_equals_kornia(dtype: torch.dtype) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kornia = pytest.importorskip("kornia.geometry.transform")
    images = torch.rand(16, 2, 40, 40, dtype=dtype, generator=generator())
    matrices = homographies.matrix(coefficients(dtype=dtype))
    swap = SWAP.to(dtype)
    inverse = swap @ torch.linalg.inv(matrices) @ swap
    expected = kornia.homography_warp(
        images, inverse, (40, 40), align_corners=True, normalized_homography=True, padding_mode="zeros"
    )
    torch.testing.assert_close(warp(images, matrices), expected, atol=TOLERANCE[dtype], rtol=0)
    shifted = warp(images - 1, matrices, background=-1.0)
    torch.testing.assert_close(shifted, expected - 1, atol=TOLERANCE[dtype], rtol=0)


def test_gradients_are_those_of_calculus() -> None:
    images = smooth_images(9, 2).requires_grad_()
    x = (0.5 * coefficients(2)).requires_grad_()
    assert torch.autograd.gradcheck(lambda i, c: warp(i, homographies.matrix(c), -1.0), (images, x))


@BOTH
@pytest.mark.parametrize("nudge", [0.0, 1e-30, 1e-7, 1e-6, 1e-5])
def test_the_horizon_is_background_without_infinities(dtype: torch.dtype, nudge: float) -> None:
    """H⁻¹ of depth 1 − 1.5 row is exactly 0 in a row of the 7-row grid (row 2/3), and nearly with a nudge."""
    inverse = torch.eye(3, dtype=dtype)
    inverse[2, 0] = -1.5
    inverse[2, 2] = 1 + nudge
    matrices = torch.linalg.inv(inverse)[None].requires_grad_()
    images = torch.rand(1, 1, 7, 7, dtype=dtype, generator=generator()).requires_grad_()
    warped = warp(images, matrices, background=-1.0)
    warped.square().sum().backward()
    assert matrices.grad is not None and images.grad is not None
    assert all(tensor.isfinite().all() for tensor in (warped, matrices.grad, images.grad))
    assert (warped[:, :, 5:] == -1).all()  # at the horizon and behind it
    assert (warped[:, :, 2:4] > -1).any()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-3, 3, width=32), min_size=8, max_size=8), st.sampled_from([1, 2]))
def test_any_homography_gives_finite_values_within_range_and_finite_gradients(x: list[float], power: int) -> None:
    vector = torch.tensor([x], requires_grad=True)
    images = torch.rand(1, 1, 8, 8, generator=generator()).requires_grad_()
    warped = warp(images, homographies.matrix(power * vector), background=-1.0)
    assert -1 <= warped.min() and warped.max() <= 1 + 1e-5
    warped.sum().backward()
    assert vector.grad is not None and vector.grad.isfinite().all()
    assert images.grad is not None and images.grad.isfinite().all()


@pytest.mark.parametrize("action", [Homographies(), AffineMaps()])
@pytest.mark.parametrize("rows", [[[1, 0, 0], [0, 0, 0], [0, 0, 1]], [[1, 1, 0], [1, 1, 0], [0, 0, 1]]])
def test_singular_matrices_are_background_with_finite_gradients(rows, action) -> None:
    matrices = torch.tensor([rows], dtype=torch.float32, requires_grad=True)
    warped = action.act(torch.ones(1, 1, 4, 4), matrices)
    warped.sum().backward()
    assert (warped == -1).all() and matrices.grad is not None and matrices.grad.isfinite().all()


@pytest.mark.parametrize("entry", [0.0, math.inf, math.nan])
def test_impossible_matrices_are_background(entry: float) -> None:
    warped = warp(torch.ones(1, 1, 4, 4), torch.full((1, 3, 3), entry), background=-1.0)
    assert (warped == -1).all()


def test_warp_rejects_an_image_without_extent() -> None:
    with pytest.raises(ValueError, match="1×4 image is too small"):
        warp(torch.ones(1, 1, 1, 4), torch.eye(3)[None])


def test_warp_compiles_without_a_graph_break(monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.rand(2, 1, 6, 6)
    matrices = homographies.matrix(coefficients(2, torch.float32))
    expected = warp(images, matrices, -1.0)
    for name in ("act", "inverse"):  # without the checks of the tests
        monkeypatch.setattr(PlaneMaps, name, inspect.unwrap(getattr(PlaneMaps, name)))
    for name in ("on_device_of", "interpolated"):
        monkeypatch.setattr(homographies, name, inspect.unwrap(getattr(homographies, name)))
    compiled = torch.compile(Homographies().act, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(images, matrices), expected)


def test_autocast_does_not_touch_the_places() -> None:
    images = torch.rand(4, 1, 20, 20)
    matrices = homographies.matrix(coefficients(4, torch.float32))
    with torch.autocast("cpu", torch.bfloat16):
        warped = warp(images, matrices)
    assert torch.equal(warped, warp(images, matrices))


@BOTH
def test_strength(dtype: torch.dtype) -> None:
    shift = torch.eye(3, dtype=dtype)
    shift[0, 2], shift[1, 2] = 0.3, 0.4
    behind = torch.eye(3, dtype=dtype)
    behind[2, 0] = -1.5
    values = Homographies().strength(torch.stack((torch.eye(3, dtype=dtype), shift, 7 * shift, behind)))
    torch.testing.assert_close(values, torch.tensor([0, 0.5, 0.5, math.inf], dtype=dtype))
    x = coefficients(dtype=dtype)
    assert (
        Homographies().strength(homographies.matrix(0.01 * x)) < Homographies().strength(homographies.matrix(0.1 * x))
    ).all()


def test_samples_follow_their_generator() -> None:
    assert torch.equal(coefficients(4), coefficients(4))
    torch.manual_seed(5)
    from_global = homographies.sample_coefficients(4)
    torch.testing.assert_close(from_global, homographies.sample_coefficients(4, generator(5)))
    scales = torch.tensor(homographies.SCALES, dtype=torch.float64)
    torch.testing.assert_close(coefficients(40_000).std(0), scales, rtol=0.02, atol=0)


def test_the_action_samples_the_numbers_of_earlier_records() -> None:
    expected = homographies.matrix(coefficients(5))
    assert torch.equal(Homographies().sample(5, generator()), expected)
    walked = homographies.matrix(homographies.walk_coefficients(5, generator()))
    assert torch.equal(homographies.WalkedHomographies().sample(5, generator()), walked)


def test_the_action_computes_places_in_float32_or_the_precision_of_the_images() -> None:
    images, matrices = smooth_images(12, 4), Homographies().sample(4, generator())
    for dtype in (torch.float32, torch.float64):
        expected = warp(images.to(dtype), matrices.to(dtype), -1.0)
        assert torch.equal(Homographies().act(images.to(dtype), matrices), expected)
    half = Homographies().act(images.bfloat16(), matrices)
    assert half.dtype == torch.bfloat16
    assert (half.double() - Homographies().act(images, matrices)).abs().mean() < 0.01


def test_inverse_is_that_of_linear_algebra_up_to_a_positive_factor() -> None:
    h = homographies.matrix(coefficients())
    torch.testing.assert_close(Homographies().inverse(h), torch.linalg.inv(h))
    for factor in (-2.0, 3.0):
        scaled = Homographies().inverse(factor * h)
        torch.testing.assert_close(scaled / abs(factor) ** 3, torch.linalg.inv(factor * h))


def test_any_positive_factor_makes_no_difference(generator):
    x, homographies = torch.rand(4, 1, 8, 8, generator=generator), Homographies()
    t = homographies.sample(4, generator)
    for factor in (1e-12, 1e-4, 1e10, 1e18):
        torch.testing.assert_close(homographies.act(x, factor * t), homographies.act(x, t), atol=1e-5, rtol=0)
