"""A program's default device changes nothing that is computed on the CPU, and nothing that is kept for later."""

import pytest
import torch

from niso.geometry import cameras, trajectories
from niso.geometry.averaging import averaged
from niso.geometry.domains import domain, sphere, sphere_samplings, torus
from niso.geometry.domains.equirectangular import directions
from niso.geometry.occluders import draw_occluder, draw_passing
from niso.geometry.rotations import Rotations
from niso.methods.block_diagonal import block_diagonalise

ONE, SHARES, FUNCTIONS = torch.eye(4), torch.tensor([0.3, 0.5]), torch.ones(1, 64, 2)


def seeded():
    return torch.Generator().manual_seed(0)


def turned():
    action = Rotations(8, 4)
    return action.act(FUNCTIONS, action.sample(1, seeded()))


COMPUTED = {
    "torus": lambda: domain.torus(4, 6),
    "box": lambda: domain.box(3, 4, 5),
    "sphere": lambda: domain.quadrature_sphere(10, 10),
    "raster": lambda: domain.rastered_sphere((12, 24), "poles")(6, 12),
    "fibonacci": lambda: sphere_samplings.fibonacci(20),
    "random": lambda: sphere_samplings.random(20, seed=0),
    "harmonics of the sphere": lambda: sphere.harmonics(12),
    "harmonics of the torus": lambda: torus.harmonics(6),
    "Laplacian of the torus": lambda: (torus.laplacian(5),),
    "directions": lambda: (directions(14, 14, "driscoll-healy"),),
    "rotations": lambda: (turned(),),
    "cameras": lambda: (torch.from_numpy(cameras.from_world_to_camera(ONE[None, :3, :3], ONE[None, 3, :3])[0]),),
    "a straight line": lambda: (trajectories.straight_line(5),),
    "averages": lambda: (averaged({n: ONE.expand(9 - n, 4, 4) for n in (1, 2)}),),
    "occluders": lambda: draw_occluder(SHARES, (8, 8), seeded()),
    "passing objects": lambda: draw_passing(2, generator=seeded()),
    "blocks": lambda: (block_diagonalise(ONE.expand(6, 4, 4), epochs=1),),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_on_the_cpu_stays_there(name):
    with torch.device("meta"):
        first = COMPUTED[name]()
    again = COMPUTED[name]()
    for one, other in zip(first, again, strict=True):
        assert not isinstance(other, torch.Tensor) or (one.device.type == "cpu" and torch.equal(one, other))
