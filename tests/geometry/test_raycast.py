"""The ray caster: surfaces where geometry has them, textures, and views that agree with each other."""

from __future__ import annotations

import math

import pytest
import torch

from niso.geometry import se3
from niso.geometry.raycast import Scene, Textures, mipmaps, rays, render
from tests.poses import random_poses

SIZE = 48
INTRINSICS = torch.tensor([40.0, 40, SIZE / 2, SIZE / 2])


def plain(colours) -> Textures:
    return mipmaps(torch.tensor(colours)[:, None, None].expand(-1, 8, 8, 3).clone())


def scene(*objects, half=(2.0, 3.0, 4.0), textures=None) -> Scene:
    """A room of these half sides around the origin, and objects (centre, half sides, sphere)."""
    count = len(objects) + 1
    return Scene(
        torch.tensor([(0.0, 0.0, 0.0), *(one[0] for one in objects)]),
        torch.eye(3).repeat(count, 1, 1),
        torch.tensor([half, *(one[1] for one in objects)]),
        torch.tensor([False, *(one[2] for one in objects)]),
        torch.arange(count)[:, None].expand(count, 6) if textures is None else textures,
        torch.full((count,), 2.0),
        torch.tensor([0.0, 0.0, 1.0]),
    )


def at(place, turn=(0.0, 0.0, 0.0)) -> torch.Tensor:
    pose = se3.exp(torch.tensor([0.0, 0, 0, *turn]))
    pose[:3, 3] = torch.tensor(place)
    return pose


def view(made: Scene, pose, colours=((0.5, 0.5, 0.5), (0.2, 0.4, 0.6), (0.9, 0.1, 0.1))):
    return render(made, plain(colours), pose, INTRINSICS, SIZE, SIZE)


def test_rays_go_through_pixel_centres():
    found = rays(INTRINSICS, SIZE, SIZE).unflatten(0, (SIZE, SIZE))
    torch.testing.assert_close(found.norm(dim=-1), torch.ones(SIZE, SIZE))
    pixel = found[3, 10] / found[3, 10, 2]
    torch.testing.assert_close(pixel, torch.tensor([(10.5 - 24) / 40, (3.5 - 24) / 40, 1.0]))


def test_walls_are_at_their_distance():
    """Looking along z, the wall z = 4 fills the middle; the walls x = ±2, y = ±3 the sides where they are nearer."""
    found = view(scene(), at((0.0, 0.0, 1.0)))
    assert float(found.depth[24, 24]) == pytest.approx(3, abs=1e-5)
    x, y, _ = rays(INTRINSICS, SIZE, SIZE).T.unflatten(1, (SIZE, SIZE)) / rays(INTRINSICS, SIZE, SIZE).T[2].view(
        SIZE, SIZE
    )
    expected = torch.full((SIZE, SIZE), 3.0).minimum(2 / x.abs()).minimum(3 / y.abs())
    torch.testing.assert_close(found.depth, expected)
    assert (found.objects == 0).all()


def test_a_sphere_is_where_it_is():
    found = view(scene(((0.0, 0.0, 3.0), (0.5,) * 3, True)), at((0.0, 0.0, 0.5)))
    sphere = found.objects == 1
    direction = rays(INTRINSICS, SIZE, SIZE).unflatten(0, (SIZE, SIZE))
    assert torch.equal(sphere, direction[..., 2] > math.sqrt(1 - 0.2**2))  # the cone that touches it: sin = 0.5 / 2.5
    points = (direction / direction[..., 2:] * found.depth[..., None])[sphere] + torch.tensor([0.0, 0, 0.5])
    torch.testing.assert_close((points - torch.tensor([0.0, 0, 3])).norm(dim=-1), torch.full((len(points),), 0.5))


@pytest.mark.parametrize("kind", [False, True], ids=["box", "sphere"])
def test_the_nearer_object_hides_the_other(kind):
    near, far = ((0.0, 0.0, 1.5), (0.3, 0.3, 0.3), kind), ((0.1, 0.0, 3.0), (0.8, 0.8, 0.5), False)
    for objects, nearer in (((near, far), 1), ((far, near), 2)):
        found = view(scene(*objects), at((0.0, 0.0, 0.0)))
        assert found.objects[24, 24] == nearer and (found.objects == 3 - nearer).sum() > 50
        assert float(found.depth[24, 24]) == pytest.approx(1.2, abs=1e-3)


def test_what_is_behind_the_camera_is_not_seen():
    found = view(
        scene(((0.0, 0.0, -2.0), (0.5,) * 3, True), ((0.0, 0.5, -2.0), (0.5,) * 3, False)), at((0.0, 0.0, 0.0))
    )
    assert (found.objects == 0).all()


def test_a_turned_box_shows_two_faces():
    turned = scene(((0.0, 0.0, 2.0), (0.5, 0.5, 0.5), False), textures=torch.tensor([[0] * 6, [0, 1, 0, 0, 2, 0]]))
    axes = se3.rotation(se3.exp(torch.tensor([0.0, 0, 0, 0, math.pi / 4, 0])))
    turned = turned._replace(axes=torch.stack((torch.eye(3), axes)))
    found = view(turned, at((0.0, 0.0, 0.0)), ((0.5, 0.5, 0.5), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)))
    assert float(found.depth[24, 24]) == pytest.approx(2 - 0.5 * math.sqrt(2), abs=0.02)
    box = found.objects == 1
    red, green = found.colours[0][box] > 0.1, found.colours[1][box] > 0.1
    assert (red ^ green).all() and 0.4 < red.float().mean() < 0.6
    column = torch.arange(SIZE).expand(SIZE, SIZE)[box]
    assert column[green].max() < column[red].min()  # the face +x, turned towards the camera, is on the right


def test_a_texture_lies_on_the_wall_without_being_mirrored():
    """u grows along x, v along y of the wall z = 4; one tile of 2 is centred on it."""
    ramp = torch.linspace(0, 1, 64)
    image = torch.stack((ramp.expand(64, 64), ramp[:, None].expand(64, 64), torch.zeros(64, 64)), dim=-1)
    lit = scene(half=(9.0, 9.0, 4.0))._replace(light=torch.tensor([0.0, 0, -1]))  # shade 0.55 + 0.5 there
    found = render(lit, mipmaps(image[None]), at((0.0, 0.0, 3.0)), INTRINSICS, SIZE, SIZE).colours / 1.05
    x = (torch.arange(SIZE) + 0.5 - 24) / 40
    inside = x.abs() < 0.45
    expected = ((x + 1) / 2)[inside]
    torch.testing.assert_close(found[0, 24][inside], expected, atol=0.02, rtol=0)
    torch.testing.assert_close(found[1, :, 24][inside], expected, atol=0.02, rtol=0)


def test_far_textures_are_averaged_not_sampled():
    """A fine chessboard seen from afar is grey, from close by black and white."""
    board = ((torch.arange(128)[:, None] + torch.arange(128)) % 2).float()[..., None].expand(128, 128, 3)
    made = scene(half=(30.0, 30.0, 40.0))
    far = render(made, mipmaps(board[None].clone()), at((0.0, 0.0, 0.0)), INTRINSICS, SIZE, SIZE).colours
    near = render(made, mipmaps(board[None].clone()), at((0.0, 0.0, 39.9)), INTRINSICS, SIZE, SIZE).colours
    assert far[:, 20:28, 20:28].std() < 0.01 < 0.1 < near[:, 20:28, 20:28].std()


def test_mipmaps_hold_averages():
    images = torch.rand(3, 16, 16, 3, generator=torch.Generator().manual_seed(0))
    found = mipmaps(images)
    assert found.sides.tolist() == [16, 8, 4]
    start = int(found.starts[2, 1])
    half = found.texels[start : start + 64].view(8, 8, 3)
    torch.testing.assert_close(half[1, 2], images[2, 2:4, 4:6].mean((0, 1)))
    torch.testing.assert_close(found.texels[found.starts[1, 0] :][:256].view(16, 16, 3), images[1])


def test_a_view_depends_on_the_camera_only_up_to_the_world():
    """Turning the world and the camera together changes nothing."""
    objects = (((0.3, 0.2, 2.0), (0.4, 0.3, 0.5), False), ((-0.5, 0.0, 1.5), (0.3,) * 3, True))
    made, pose = scene(*objects), at((0.1, 0.2, -1.0), (0.1, -0.2, 0.05))
    world = random_poses(1, torch.Generator().manual_seed(0))[0]
    turn = se3.rotation(world)
    moved = made._replace(
        centres=made.centres @ turn.mT + se3.translation(world), axes=turn @ made.axes, light=turn @ made.light
    )
    one, other = view(made, pose), view(moved, world @ pose)
    same = one.objects == other.objects
    assert same.float().mean() > 0.995  # a ray at an edge may go either way
    torch.testing.assert_close(one.depth[same], other.depth[same], atol=1e-3, rtol=1e-3)
