"""Rigid motions: group laws, exponential, the nine numbers of a pose head."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from niso.geometry import se3
from tests.poses import random_poses


@pytest.fixture
def poses(dtype, generator):
    return random_poses(20, generator, dtype=dtype)


def test_group_laws(poses, tolerance):
    identity = torch.eye(4, dtype=poses.dtype).expand_as(poses)
    torch.testing.assert_close(poses @ se3.inverse(poses), identity, atol=tolerance, rtol=0)
    torch.testing.assert_close(se3.inverse(poses) @ poses, identity, atol=tolerance, rtol=0)
    a, b = poses[:10], poses[10:]
    inverse_of_product = se3.inverse(b) @ se3.inverse(a)
    torch.testing.assert_close(se3.inverse(a @ b), inverse_of_product, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(a @ se3.relative(a, b), b, atol=tolerance, rtol=tolerance)


def test_relative_poses_do_not_depend_on_the_world(poses, tolerance):
    a, b, world = poses[:9], poses[9:18], poses[18]
    torch.testing.assert_close(se3.relative(world @ a, world @ b), se3.relative(a, b), atol=tolerance, rtol=0)


def test_pose_and_its_parts(poses):
    assert torch.equal(se3.pose(se3.rotation(poses), se3.translation(poses)), poses)
    assert torch.equal(poses[:, 3], torch.tensor([0.0, 0, 0, 1], dtype=poses.dtype).expand(20, 4))


def test_exp_is_the_matrix_exponential(dtype, tolerance, generator):
    twists = torch.randn(40, 6, generator=generator, dtype=dtype) * torch.logspace(-6, 0.3, 40, dtype=dtype)[:, None]
    algebra = torch.zeros(40, 4, 4, dtype=dtype)
    algebra[:, :3, :3], algebra[:, :3, 3] = se3.hat(twists[:, 3:]), twists[:, :3]
    torch.testing.assert_close(se3.exp(twists), torch.linalg.matrix_exp(algebra), atol=tolerance, rtol=tolerance)


def test_exp_of_a_screw_by_hand(dtype, tolerance):
    """A quarter turn about z while moving along x at unit rate: an arc of radius 2/π."""
    quarter = math.pi / 2
    twist = torch.tensor([1.0, 0, 0, 0, 0, quarter], dtype=dtype)
    expected = torch.tensor([[0, -1, 0, 1 / quarter], [1, 0, 0, 1 / quarter], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=dtype)
    torch.testing.assert_close(se3.exp(twist), expected, atol=tolerance, rtol=0)


def test_exp_is_differentiable_at_rest_and_elsewhere(generator):
    twists = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    twists[0] = 0
    twists[1] *= 1e-4
    twists[2, 3:] *= 0.1 / twists[2, 3:].norm() * (1 - 1e-12)  # where the series ends
    assert torch.autograd.gradcheck(se3.exp, twists.requires_grad_())


def test_series_and_closed_form_meet(dtype, tolerance):
    angles = torch.tensor([0.0999, 0.1001], dtype=dtype)
    twists = torch.zeros(2, 6, dtype=dtype)
    twists[:, 0], twists[:, 5] = 1, angles
    expected = torch.stack((angles.double().sin() / angles.double(), (1 - angles.double().cos()) / angles.double()), -1)
    torch.testing.assert_close(se3.exp(twists)[:, :2, 3].double(), expected, atol=tolerance, rtol=0)


def test_nine_numbers_and_back(poses, tolerance):
    nine = se3.to_parameters(poses)
    assert nine.shape == (20, se3.PARAMETERS)
    torch.testing.assert_close(se3.from_parameters(nine), poses, atol=tolerance, rtol=0)


@given(values=st.lists(st.floats(-10, 10, width=32), min_size=9, max_size=9))
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_nine_numbers_are_always_a_pose(values, kind):
    found = se3.from_parameters(torch.tensor(values, dtype=kind))
    rotation = se3.rotation(found)
    torch.testing.assert_close(rotation.mT @ rotation, torch.eye(3, dtype=kind), atol=1e-5, rtol=0)
    assert torch.linalg.det(rotation) > 0
    assert torch.equal(se3.translation(found), torch.tensor(values[:3], dtype=kind))


@pytest.mark.parametrize(
    ("a", "b"), [((0, 0, 0), (0, 0, 0)), ((1, 2, 3), (2, 4, 6)), ((0, 0, 0), (1, 0, 0)), ((0, 5, 0), (0, 0, 0))]
)
def test_nine_numbers_without_directions(a, b, dtype, tolerance):
    nine = torch.tensor([0, 0, 0, *a, *b], dtype=dtype, requires_grad=True)
    rotation = se3.rotation(se3.from_parameters(nine))
    torch.testing.assert_close(rotation.mT @ rotation, torch.eye(3, dtype=dtype), atol=tolerance, rtol=0)
    (rotation * torch.arange(9, dtype=dtype).view(3, 3)).sum().backward()
    assert nine.grad.isfinite().all()


def test_nine_numbers_follow_the_first_vector_and_ignore_lengths(dtype, tolerance, generator):
    nine = torch.randn(30, 9, generator=generator, dtype=dtype)
    scaled = nine * torch.tensor([1, 1, 1, 7, 7, 7, 0.2, 0.2, 0.2], dtype=dtype)
    found = se3.from_parameters(nine)
    torch.testing.assert_close(found, se3.from_parameters(scaled), atol=10 * tolerance, rtol=0)
    first = torch.nn.functional.normalize(nine[:, 3:6], dim=-1)
    torch.testing.assert_close(found[:, :3, 0], first, atol=tolerance, rtol=0)
    assert ((found[:, :3, 1] * nine[:, 6:]).sum(-1) > 0).all()
    assert torch.autograd.gradcheck(se3.from_parameters, nine[:3].double().requires_grad_())


@pytest.mark.parametrize("apart", [1e-2, 1e-3, 1e-4, 1e-5, 3e-6, 1e-7])
def test_parameters_of_nearly_parallel_vectors_give_a_rotation(dtype, generator, apart):
    a, noise = torch.randn(2, 200, 3, generator=generator).to(dtype)
    parameters = torch.cat([a, a, 3 * a + apart * noise], dim=-1)
    rotation = se3.rotation(se3.from_parameters(parameters))
    identity = torch.eye(3, dtype=dtype).expand_as(rotation)
    torch.testing.assert_close(rotation.mT @ rotation, identity, rtol=0, atol=8 * torch.finfo(dtype).eps)


def test_autocast_changes_no_pose(generator):
    poses = se3.exp(torch.randn(5, 6, generator=generator))
    expected = se3.relative(poses[:-1], poses[1:]), se3.inverse(poses)
    with torch.autocast("cpu", torch.bfloat16):
        assert all(map(torch.equal, (se3.relative(poses[:-1], poses[1:]), se3.inverse(poses)), expected))
