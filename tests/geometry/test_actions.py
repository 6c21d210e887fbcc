"""The laws of `niso.geometry.action.Action`, for every registered action: one observation each subjects it to them."""

import inspect
import re
import textwrap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from niso.errors import InputError
from niso.geometry import ACTIONS, action
from niso.geometry.action import Action, Transformations, check_action, composes, powers
from niso.geometry.domains import equirectangular, sphere
from niso.geometry.homographies import Homographies, WalkedHomographies
from niso.geometry.make import make_action
from niso.geometry.rotations import Rotations
from tests.test_extending import QuarterTurns


class Example(NamedTuple):
    """An action, smooth observations (count → tensor in float64), and tolerances of the laws.

    Attributes:
        name: that the action is registered by; empty for others.
        shrink: weakens transformations, so that an observation stays in the frame, or leaves out the identity.
        rounding: error in float64; transformations themselves may be drawn in float32.
        interpolation: error of interpolation, in standard deviations of the observation.
        commutes: whether one after the other is the other after the one.
    """

    name: str
    action: Action
    observe: Callable[[int], Tensor]
    identity: Tensor
    shrink: Callable[[Tensor], Tensor] = lambda t: t
    rounding: float = 1e-6
    interpolation: float = 0.0
    commutes: bool = False


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def normal_on(points: int, count: int) -> Tensor:
    return normal(count, points, 2)


def blobs(count: int, size: int = 64) -> Tensor:
    """Smooth images that vanish towards the border, less one: black is −1."""
    line = torch.linspace(-1, 1, size, dtype=torch.float64)
    row, column = 0.1 * normal(2, count, 1, 1).clamp(-2, 2) + 0.1
    return torch.exp(-20 * ((line[:, None] - row.mT) ** 2 + 0.5 * (line - column) ** 2))[:, None] - 1


def blobs_in_volumes(count: int, size: int = 40) -> Tensor:
    """Likewise in volumes, of different sides."""
    line = torch.linspace(-1, 1, size, dtype=torch.float64)
    x, y, z = line, line[2:-2, None], line[4:-4, None, None]
    a, b, c = 0.1 * normal(3, count, 1, 1, 1).clamp(-2, 2) + 0.1
    return torch.exp(-12 * ((x - a) ** 2 + 0.5 * (y - b) ** 2 + (z - c) ** 2))[:, None] - 1


def on_sphere(count: int, size: int = 32) -> Tensor:
    points = equirectangular.directions(size, 2 * size, "driscoll-healy")
    return (points @ normal(3, count) + (points @ normal(3, count)) ** 2).permute(2, 0, 1)[:, None]


def band_limited(count: int, size: int, band: int) -> Tensor:
    return sphere.harmonics(size, band).functions @ normal(count, band**2, 3)


def root(t: Tensor, power: float = 0.5) -> Tensor:
    """A power of matrices, by their eigenvalues."""
    values, vectors = torch.linalg.eig(t.to(torch.promote_types(t.dtype, torch.complex64)))
    result = vectors @ torch.diag_embed(values**power) @ torch.linalg.inv(vectors)
    return result if t.is_complex() else result.real


def make(name: str, **settings: object) -> Action:
    return ACTIONS.find(name)(**settings)


EYE, STILL = torch.eye(3)[None], torch.zeros(1, 3).long()


def of_images(name: str, action: Action) -> Example:
    return Example(name, action, blobs, EYE.double(), root, interpolation=0.012)


def of_grids(points: int, **sides: int) -> Example:
    shifts = make("shift", **sides)
    return Example("shift", shifts, partial(normal_on, points), STILL[:, : len(shifts.sides)], commutes=True)


def of_sphere(size: int, band: int, exact: bool = True, interpolation: float = 0.0) -> Example:
    rotations = make("rotation", size=size, band=band, exact=exact)
    observe = partial(band_limited, size=size, band=band)
    return Example("rotation", rotations, observe, EYE, interpolation=interpolation)


EXAMPLES = {
    "shift": of_grids(36, size=6),
    "shift-of-signals": of_grids(99, size=1, columns=99),
    "shift-of-volumes": of_grids(120, size=4, columns=5, last=6),
    "rotation": of_sphere(8, 4),
    "rotation-resampled": of_sphere(32, 3, exact=False, interpolation=0.02),
    "homography": of_images("homography", make("homography")),
    "homography-walk": of_images("homography", WalkedHomographies()),
    "affine": of_images("affine", make("affine", angle=60.0)),
    "affine-of-wide-images": of_images("affine", make("affine", angle=30.0, aspect=1.5, scale=0.05)),
    "colour": Example(
        "colour", make("colour"), lambda count: normal(count, 3, 6, 5), torch.eye(4, dtype=torch.float64)[None]
    ),
    "turn": Example("turn", make("turn"), blobs_in_volumes, EYE, root, interpolation=0.03),
    "mobius": Example(
        "mobius", make("mobius"), on_sphere, torch.eye(2, dtype=torch.complex64)[None], interpolation=0.01
    ),
    "quarter-turn": Example(
        "", QuarterTurns(), lambda count: normal(count, 2, 5, 5), STILL[:, 0], lambda t: 1 + t % 3, commutes=True
    ),
}


@pytest.fixture(params=EXAMPLES)
def example(request) -> Example:
    return EXAMPLES[request.param]


@pytest.fixture
def t(example, generator) -> Tensor:
    return example.shrink(example.action.sample(6, generator))


def assert_equal_up_to_interpolation(example: Example, value: Tensor, expected: Tensor) -> None:
    rounding = example.rounding if value.dtype == torch.float64 else 1e-5
    error = (value - expected).square().mean().sqrt() / expected.std()
    assert error < example.interpolation + rounding


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_that_of_the_values_not_of_the_places(example, t, dtype):
    x = example.observe(6).to(dtype)
    torch.testing.assert_close(example.action.act(x, t), example.action.act(x.float(), t).to(dtype))


def test_autocast_changes_nothing(example, t):
    x = example.observe(6).float()
    expected = example.action.act(x, t), example.action.compose(t, t)
    with torch.autocast("cpu", torch.bfloat16):
        found = example.action.act(x, t), example.action.compose(t, t)
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("name", ["homography", "elastic"])
def test_large_images_in_half_precision_stay_as_they_are(name, generator):
    x = torch.rand(1, 1, 256, 256, generator=generator).bfloat16()
    nothing = torch.eye(3)[None] if name == "homography" else torch.zeros(1, 2, 4, 4)
    torch.testing.assert_close(make(name).act(x, nothing), x, atol=0.01, rtol=0)


def test_every_action_has_an_example():
    without = ACTIONS.keys() - {example.name for example in EXAMPLES.values()}
    if missing := [name for name in without if composes(ACTIONS.find(name))]:
        pytest.fail(f"add an observation of {', '.join(missing)} to EXAMPLES: it is put through the laws of actions")


class Doubling:
    """Values times a power of two: a semigroup, which has no inverses here."""

    unit = "octaves"

    def sample(self, count, generator=None):
        return torch.randint(1, 3, (count,), generator=generator)

    def act(self, x, t):
        return x * 2.0 ** t[:, None]

    def compose(self, second, first):
        return second + first

    def strength(self, t):
        return t.float()


def test_what_is_composed_can_be_applied_twice_without_inverses():
    action, x = Doubling(), torch.ones(2, 3)
    assert check_action("doubling", action, x) is action and composes(action)
    assert torch.equal(action.act(x, powers(action, action.sample(2), 2)[1]).log2() % 2, torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": None}, "lacks unit: see"),
        ({"sample": lambda self, count: torch.zeros(count)}, r"does not act on observations \(2, 3\): TypeError"),
        ({"sample": lambda self, count, _: torch.rand(count)}, "sample must draw by the generator that it gets"),
        (
            {"compose": lambda self, second, first: second @ first},
            r"compose must give torch.int64 of \(2,\), as it gets",
        ),
        ({"compose": lambda self, second, first: None}, "compose must give .*, not NoneType"),
        ({"compose": lambda self, t: t}, "does not act on observations .*: TypeError"),
        ({"act": lambda self, x, t: x * torch.full((3,), 2)[t, None]}, "does not act on .*: IndexError"),  # 4 octaves
        ({"sample": lambda self, *_: np.zeros(2)}, r"sample\(2\) must give a tensor of 2 transformations, not ndarray"),
        ({"sample": lambda self, *_: torch.zeros(1)}, r"must give a tensor of 2 .*, not torch.float32 of \(1,\)"),
        ({"act": lambda self, x, t: x[:, :2]}, r"act must give torch.float32 of \(2, 3\), as it gets, not .*\(2, 2\)"),
        ({"act": lambda self, x, t: x.double()}, "not torch.float64"),
        ({"act": lambda self, x, t: x.mul_(2)}, "act changes the observations that it gets"),
        ({"act": lambda self, x, t: x / 0 @ x}, "does not act on observations .*: RuntimeError"),
        ({"strength": lambda self, t: t[:, None]}, "strength must give a tensor of 2 numbers, not"),
        ({"strength": lambda self, t: 1.0}, "not float"),
        ({"strength": lambda self, t: -t.float()}, "strength must give finite numbers from 0 on, not"),
        ({"strength": lambda self, t: t.double() / 0}, "strength must give finite numbers from 0 on, not"),
        ({"strength": lambda self, t: t.float() * torch.nan}, "strength must give finite numbers from 0 on, not"),
        ({"act": lambda self, x, t: x * torch.rand(2, 1)}, "act must give the same for the same t"),
        ({"act": lambda self, x, t: x * t[:, None] / 0}, "act gives what is not finite for values from 1 to 1"),
        ({"act": lambda self, x, t: x * torch.nan}, "act gives what is not finite for values from 1 to 1"),
        ({"sample": lambda self, count, _: torch.zeros(count)}, "none of 128 transformations moves anything: change"),
        ({"unit": 1}, 'unit must be a text, such as "degrees", not int'),
    ],
)
def test_what_is_no_action_is_named(changes, message):
    wrong = type("Wrong", (Doubling,), changes)()
    if changes.get("unit", "") is None:
        wrong = type("Wrong", (), {name: getattr(Doubling, name) for name in ("sample", "act", "strength")})()
    with pytest.raises(InputError, match=f"action wrong.*{message}"):
        check_action("wrong", wrong, torch.ones(2, 3))


def test_every_action_passes_the_check(example):
    check_action("mine", example.action, example.observe(2))


def test_elastic_warps_are_no_group_but_everything_else():
    warps, x = make("elastic"), blobs(3)
    t = warps.sample(3, torch.Generator().manual_seed(0))
    assert isinstance(warps, Transformations) and not isinstance(warps, Action)
    assert warps.strength(t * 0).tolist() == [0, 0, 0] and (warps.strength(t) > 0.05).all()
    torch.testing.assert_close(warps.act(x, t * 0), x, atol=1e-12, rtol=0)
    torch.testing.assert_close(warps.act(x, t[:1])[:1], warps.act(x, t)[:1])
    assert (warps.act(x, t) - x).abs().max() > 0.1 and warps.act(x.float(), t).dtype == torch.float32


def test_time_warps_keep_the_order_of_samples_and_shift_without_waves():
    warps, ramp = make("warp"), torch.arange(64, dtype=torch.float64)[None, :, None]
    t = warps.sample(50, torch.Generator().manual_seed(0))
    assert isinstance(warps, Transformations) and not isinstance(warps, Action)
    steps = warps.act(ramp.expand(50, -1, -1), t)[..., 0].diff(dim=1)
    assert ((steps > 0).sum(1) >= 60).all()  # but for where the ramp begins anew
    still = t * 0
    assert warps.strength(still).tolist() == [0] * 50 and (warps.strength(t) > 0).all()
    x = normal(50, 64, 2)
    torch.testing.assert_close(warps.act(x, still), x, atol=1e-12, rtol=0)
    still[:, 0] = 5 / 64
    torch.testing.assert_close(warps.act(x, still[:1]), x.roll(5, 1), atol=1e-5, rtol=0)


def test_time_warps_move_the_beginning_by_the_shift_whatever_the_speed():
    warps, x = make("warp"), normal(50, 64, 2)
    t = warps.sample(50, torch.Generator().manual_seed(0))
    t[:, 0] = 5 / 64
    torch.testing.assert_close(warps.act(x, t)[:, 0], x[:, -5], atol=1e-4, rtol=0)


def test_a_constant_elastic_displacement_moves_an_image():
    warps, x = make("elastic"), blobs(1, 33)
    down = torch.zeros(1, 2, 4, 4)
    down[:, 0] = 2 / 32 * 5  # five pixels
    torch.testing.assert_close(warps.act(x, down)[..., 5:, :], x[..., :-5, :], atol=1e-6, rtol=0)


def test_affine_maps_turn_both_ways_up_to_their_angle():
    matrices = make("affine", angle=90.0, scale=0.0, shear=0.0).sample(500, torch.Generator().manual_seed(0))
    turned = torch.atan2(matrices[:, 1, 0], matrices[:, 0, 0]).rad2deg()
    assert -90 <= turned.min() < -85 and 85 < turned.max() <= 90


def test_a_rotation_of_a_wide_image_turns_the_plane():
    """The middle of the upper edge moves to the left, by half the height."""
    action = make("affine", angle=90.0, scale=0.0, shear=0.0, shift=0.0, aspect=2.0)
    half_turns = action.sample(500, torch.Generator().manual_seed(0))
    sides = torch.tensor([1.0, 2.0], dtype=torch.float64)
    moved = (half_turns @ torch.tensor([-1.0, 0, 1], dtype=torch.float64))[:, :2] * sides
    torch.testing.assert_close(moved.norm(dim=-1), torch.ones(500, dtype=torch.float64))


def test_actions_follow_the_protocol(example):
    assert isinstance(example.action, Action)
    assert hash(example.action) == hash(example.action) and "Observations are" in inspect.getdoc(example.action)


def test_the_identity_does_nothing_and_has_no_strength(example, dtype):
    x = example.observe(3).to(dtype)
    assert example.action.strength(example.identity).tolist() == [0]
    moved = example.action.act(x, example.identity)
    assert moved.dtype == dtype
    torch.testing.assert_close(moved, x, atol=1e-5 if dtype == torch.float32 else 1e-12, rtol=0)


def test_one_action_after_the_other_is_that_of_the_composition(example, t, dtype):
    x, (first, second) = example.observe(3).to(dtype), t.split(3)
    stepwise = example.action.act(example.action.act(x, first), second)
    at_once = example.action.act(x, example.action.compose(second, first))
    assert_equal_up_to_interpolation(example, stepwise, at_once)
    if not example.commutes:
        other = example.action.act(x, example.action.compose(first, second))
        assert (stepwise - other).square().mean() > 16 * (stepwise - at_once).square().mean()


def test_composition_is_associative_and_inverses_are_inverses(example, t):
    action, (a, b, c) = example.action, t.split(2)
    left, right = action.compose(action.compose(c, b), a), action.compose(c, action.compose(b, a))
    torch.testing.assert_close(left, right)
    assert action.strength(t).min() > 0
    for nothing in (action.compose(action.inverse(t), t), action.compose(t, action.inverse(t))):
        torch.testing.assert_close(action.strength(nothing), torch.zeros_like(action.strength(t)), atol=2e-4, rtol=0)


def test_the_inverse_undoes_an_action(example, t, dtype):
    x = example.observe(6).to(dtype)
    moved = example.action.act(x, t)
    assert moved.dtype == dtype and (moved - x).abs().max() > 0.1
    assert_equal_up_to_interpolation(example, example.action.act(moved, example.action.inverse(t)), x)


def test_one_transformation_serves_a_batch_and_each_observation_its_own(example, t, dtype):
    x = example.observe(6).to(dtype)
    close = partial(torch.testing.assert_close, atol=1e-5 if dtype == torch.float32 else 1e-12, rtol=0)
    each = torch.cat([example.action.act(x[i : i + 1], t[i : i + 1]) for i in range(6)])
    close(example.action.act(x, t), each)
    close(example.action.act(x, t[:1]), example.action.act(x, t[:1].repeat_interleave(6, 0)))


def test_samples_follow_their_generator_and_not_the_device(example):
    action = example.action
    expected = action.sample(5, torch.Generator().manual_seed(3))
    assert torch.equal(action.sample(5, torch.Generator().manual_seed(3)), expected)
    torch.manual_seed(3)
    with torch.device("meta"):  # whatever the default device is
        from_global = action.sample(5)
    assert from_global.device.type == "cpu" and torch.equal(from_global, expected)
    assert not torch.equal(action.sample(5), expected)


def test_no_transformation_and_one(example):
    action = example.action
    for count in (0, 1):
        t, x = action.sample(count), example.observe(count)
        assert len(t) == len(action.strength(t)) == len(action.inverse(t)) == len(action.compose(t, t)) == count
        assert action.act(x, t).shape == x.shape


def test_gradients_flow_to_observations_and_continuous_transformations(example, t, dtype):
    x = example.observe(6).to(dtype).requires_grad_()
    continuous = t.is_floating_point() or t.is_complex()
    t = t.clone().requires_grad_(continuous)
    example.action.act(x, t).square().sum().backward()
    for tensor in (x, t) if continuous else (x,):
        assert tensor.grad is not None and tensor.grad.isfinite().all() and tensor.grad.abs().max() > 0


@pytest.mark.cuda
def test_observations_may_be_elsewhere(example, t, device):
    x = example.observe(6)
    moved = example.action.act(x.to(device), t)
    assert moved.device.type == device.type
    torch.testing.assert_close(moved.cpu(), example.action.act(x, t))
    torch.testing.assert_close(example.action.act(x, t.to(device)), example.action.act(x, t))


def test_the_example_of_the_protocol_is_an_action(generator):
    code = re.search(r"^    @dataclass.*?(?=^\S)", inspect.getdoc(Action), re.M | re.S).group()
    names = {"dataclass": dataclass, "torch": torch, "on_device_of": action.on_device_of}
    exec(textwrap.dedent(code), names)
    reversals, x = names["Reversals"](), normal(8, 5, 1)
    assert isinstance(reversals, Action)
    first, second = reversals.sample(8, generator), reversals.sample(8, generator)
    both = reversals.act(reversals.act(x, first), second)
    assert torch.equal(both, reversals.act(x, reversals.compose(second, first)))
    assert torch.equal(reversals.act(reversals.act(x, first), reversals.inverse(first)), x)
    assert reversals.strength(reversals.compose(reversals.inverse(first), first)).tolist() == [0] * 8


SHAPES = {"images": (3, 6, 8), "volumes": (2, 4, 6, 8), "signals": (9, 2), "points": (9, 2)}


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_acts_on_each_kind_of_observations_or_is_refused_in_one_line(name):
    acts = set()
    for kind, shape in SHAPES.items():
        try:
            action = make_action("--transform", name, kind, shape)
        except InputError as error:
            assert str(error).startswith(f"--transform {name} does not fit {kind} {shape}: it acts on ")
        else:
            acts.add(kind)
            assert composes(action) == composes(ACTIONS.find(name))
    assert acts and acts < {*SHAPES}


class Sized(Doubling):
    """Needs more than its name."""

    def __init__(self, size: int) -> None:
        self.size = size


class SizedByShape(Sized):
    @classmethod
    def of(cls, kind, shape):
        return cls(shape[-1])


def test_actions_of_the_user_take_the_place_of_others_and_are_told_the_shape(monkeypatch):
    for name in ("shift", "affine", "mine"):
        monkeypatch.setitem(ACTIONS, name, f"{__name__}.SizedByShape")
        action = make_action("--action", name, "points", (3,))
        assert isinstance(action, SizedByShape) and action.size == 3
        monkeypatch.setitem(ACTIONS, name, f"{__name__}.Sized")
        with pytest.raises(InputError, match=f"--action {name} does not fit points .*'size': give its class a class"):
            make_action("--action", name, "points", (3,))


def test_homographies_alone_are_tested_by_the_published_distribution():
    class Own(Homographies):
        """Draws others, perhaps."""

    assert Homographies(0.5).test_distribution() == WalkedHomographies(0.5)
    for same in (Own(), WalkedHomographies()):
        assert same.test_distribution() is same
    assert not hasattr(make("affine"), "test_distribution")


def test_unknown_actions_are_refused_with_the_nearest_name():
    with pytest.raises(InputError, match="unknown action 'homograpy'; did you mean homography"):
        ACTIONS.find("homograpy")


def test_the_inverse_of_an_affine_map_is_one(generator):
    maps = make("affine")
    t = maps.sample(5, generator)
    torch.testing.assert_close(maps.inverse(t), torch.linalg.inv(t))


def test_powers_of_what_cannot_be_composed_are_refused():
    elastic = ACTIONS.find("elastic")()
    t = elastic.sample(2)
    assert not composes(elastic) and powers(elastic, t, 1) == [t]
    with pytest.raises(TypeError, match="cannot be applied twice"):
        powers(elastic, t, 2)


def test_a_subclass_in_place_of_rotations_is_taken(monkeypatch):
    monkeypatch.setitem(ACTIONS, "rotation", f"{__name__}.Slow")
    assert isinstance(make_action("--action", "rotation", "points", (64, 2)), Slow)


@dataclass(frozen=True)
class Slow(Rotations):
    """Rotations of functions on a grid of its own."""

    size: int = 8
    band: int = 4


class OfOneAlone(Doubling):
    """Forgets the batch."""

    def act(self, x, t):
        return super().act(x, t)[:1]


class Wordy(Doubling):
    @classmethod
    def of(cls, kind, shape):
        raise ValueError("not\n  for these")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("rotatoin", None, "unknown transform 'rotatoin'; did you mean rotation"),
        ("mine", OfOneAlone, "mine"),
        ("mine", Wordy, r"--transform mine does not fit points \(4, 3\): not for these$"),
    ],
)
def test_what_cannot_be_made_is_said_in_one_line(name, kind, message, monkeypatch):
    if kind:
        monkeypatch.setitem(ACTIONS, name, f"{__name__}.{kind.__name__}")
    with pytest.raises(InputError, match=message) as caught:
        make_action("--transform", name, "points", (4, 3))
    assert "\n" not in str(caught.value)


class OfTheFirst(Doubling):
    """Moves all by one transformation."""

    def act(self, x, t):
        return super().act(x, t[:1].expand_as(t))


class Idle(Doubling):
    def act(self, x, t):
        return x.clone()


class Undoing(Doubling):
    """Twice is nothing."""

    def compose(self, second, first):
        return second - first


def test_actions_that_are_wrong_in_their_values_are_told(monkeypatch, capsys):
    monkeypatch.setitem(ACTIONS, "mine", f"{__name__}.OfTheFirst")
    with pytest.raises(InputError, match=r"mine: act must move each observation by its own transformation, t\[i\]"):
        make_action("--action", "mine", "points", (3,))
    monkeypatch.setitem(ACTIONS, "mine", f"{__name__}.Idle")
    with pytest.raises(InputError, match="mine: act leaves observations as they are, though their strength is not 0"):
        make_action("--action", "mine", "points", (3,))
    assert not capsys.readouterr().err
    monkeypatch.setitem(ACTIONS, "mine", f"{__name__}.Undoing")
    make_action("--action", "mine", "points", (3,))
    assert "! action mine: T twice is not T² of compose" in capsys.readouterr().err


class Rooted(Doubling):
    """Of values that are not negative alone."""

    def act(self, x, t):
        return x.sqrt() * 2.0 ** t[:, None]


class Flips(Doubling):
    """A few observations are flipped."""

    share = 0.3

    def sample(self, count, generator=None):
        return (torch.rand(count, generator=generator) < self.share).long()

    def act(self, x, t):
        return x.flip(1).where(t[:, None, None] > 0, x)

    def compose(self, second, first):
        return (second + first) % 2


class SeldomFlips(Flips):
    share = 0.02


class OnceFlips(Flips):
    def compose(self, second, first):
        return second | first


def test_an_action_is_tried_on_values_of_both_signs(monkeypatch):
    for kind, shape in (("points", (3,)), ("images", (3,))):
        monkeypatch.setitem(ACTIONS, "mine", f"{__name__}.Rooted")
        with pytest.raises(InputError, match=r"mine: act gives what is not finite for values from -"):
            make_action("--action", "mine", kind, shape)


@pytest.mark.parametrize(("kind", "told"), [(Flips, False), (SeldomFlips, False), (OnceFlips, True)])
def test_what_moves_few_observations_is_tried_on_these(monkeypatch, capsys, kind, told):
    monkeypatch.setitem(ACTIONS, "mine", f"{__name__}.{kind.__name__}")
    make_action("--action", "mine", "signals", (9, 2))
    assert ("! action mine: T twice is not T² of compose, off by 1 of T" in capsys.readouterr().err) == told


@pytest.mark.parametrize("name", ["rotation", "elastic", "colour"])
def test_transformations_that_do_nothing_are_refused(name):
    setting = "angle" if name == "rotation" else "deviation"
    with pytest.raises(InputError, match=f"action {name}: none of 512 transformations moves anything: change its sett"):
        make_action("--transform", name, "images", (3, 64, 64), {setting: 0.0})
    make_action("--transform", name, "images", (3, 64, 64), {setting: 0.1 if name == "rotation" else 0.01})


def test_colours_of_many_channels_have_strengths(generator):
    strengths = []
    for channels in (10, 11, 200):
        maps = make_action("--transform", "colour", "images", (channels, 2, 2))
        t = maps.sample(50 if channels < 200 else 5, generator)
        nothing = torch.eye(channels + 1, dtype=torch.float64)[None]
        assert maps.strength(nothing).tolist() == [0] and torch.equal(maps.strength(t), maps.strength(t))
        strengths.append(maps.strength(t).mean().item() / channels)
    assert strengths[1] == pytest.approx(strengths[0], rel=0.1)


def test_nothing_is_told_of_nisos_own_actions(capsys):
    for name in ACTIONS:
        for kind, shape in [*SHAPES.items(), ("images", (1, 40, 40)), ("volumes", (1, 12, 12, 12))]:
            with suppress(InputError):
                make_action("--action", name, kind, shape)
    assert not capsys.readouterr().err
