import pytest
import torch
from torch import nn

from niso import collective, losses
from niso.networks import occlusion as occlusions
from niso.networks.occlusion import PassingOcclusion, RandomOcclusion, SeenPoints, Visibility


def test_random_occlusion_covers_up_to_a_share():
    x = torch.full((64, 1, 16, 16), 2.0)  # no occluder has this value
    hidden = (RandomOcclusion(0.5)(x) != x).flatten(1).float().mean(1)
    assert hidden.max() <= 0.6 and hidden.mean() > 0.15
    assert torch.equal(RandomOcclusion(0.0)(x), x)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        RandomOcclusion(1.5)


def test_both_frames_of_a_pair_show_the_same_object():
    torch.manual_seed(0)
    x = torch.zeros(16, 3, 32, 32)
    marked = PassingOcclusion(0.5, mark=True, frames=11)(x)
    covered = marked[:, 0].isnan()
    assert torch.equal(marked.isnan().any(1), covered)
    pixels = covered.flatten(1).sum(1)
    assert ((pixels[:8] - pixels[8:]).abs() <= 2).all() and pixels.unique().numel() > 6
    assert pixels.max() <= 0.5 * 32 * 32 + 2
    assert not (covered[:8] == covered[8:]).flatten(1).all(1).any()  # it has moved on
    first, second = PassingOcclusion(0.5, mark=True, frames=1)(x).isnan().chunk(2)
    assert not (first == second).flatten(1).all(1).all()  # by one frame, not by none
    shown = PassingOcclusion(0.5, frames=11)(x)
    colours = [shown[i].flatten(1)[:, shown[i].flatten(1).any(0)].mT.mean(0) for i in range(16)]
    apart = [(colours[i] - colours[i + 8]).abs().max() for i in range(8)]
    assert sorted(apart)[4] < 0.3
    occlusion = PassingOcclusion(0.5)
    assert occlusion(x[:5]).shape == (5, 3, 32, 32)  # any number of images


@pytest.mark.parametrize(
    "occlusion",
    [RandomOcclusion(0.5), RandomOcclusion(0.5, views=2), RandomOcclusion(0.5, views=3), PassingOcclusion(0.5)],
)
@pytest.mark.parametrize("world", [2, 3])
def test_the_number_of_processes_does_not_change_what_is_covered(monkeypatch, occlusion, world):
    views = torch.zeros(6, occlusion.views, 1, 16, 16).unbind(1)

    def covered(rank, world):
        for module in (collective, occlusions):
            monkeypatch.setattr(module, "process", lambda: (rank, world))
        torch.manual_seed(1)
        return occlusion(torch.cat([collective.local_part(view) for view in views])).chunk(len(views))

    parts = [covered(rank, world) for rank in range(world)]
    together = torch.cat([torch.cat(view) for view in zip(*parts, strict=True)])
    assert together.any()
    assert torch.equal(together, torch.cat(covered(0, 1)))


class Pixels(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(2).mT


def test_unseen_pixels_lower_the_confidence_of_their_points():
    x = torch.zeros(2, 3, 4, 4)
    x[0, :, :2, 0] = torch.nan
    x[1, 1, 3, 3] = torch.nan  # one channel is enough
    encode = SeenPoints(nn.Sequential(nn.AvgPool2d(2), Pixels()), (2, 2))
    z = encode(x)
    assert z.shape == (2, 4, 4) and z.isfinite().all()
    guess = encode.guess.sigmoid()
    for confidence, share in zip(z[..., -1], ([0.5, 1, 1, 1], [1, 1, 1, 0.75]), strict=True):
        torch.testing.assert_close(confidence, guess + (1 - guess) * torch.tensor(share).square())
    z[..., -1].sum().backward()
    assert encode.guess.grad != 0


def test_what_is_not_seen_is_learned_and_kept_from_the_encoder():
    torch.manual_seed(0)
    visibility = Visibility(1)
    encode = SeenPoints(nn.Sequential(nn.AvgPool2d(2), Pixels()), (4, 4), visibility)
    x = torch.rand(4, 1, 8, 8)
    z = encode(x)
    assert (z[..., -1] == 1).all()  # untrained it trusts all, and changes nothing
    torch.testing.assert_close(z[..., :-1], encode.encoder(x))
    occlusion, optimizer = RandomOcclusion(0.5), torch.optim.Adam(visibility.parameters(), 0.02)
    for _ in range(150):  # observations are white, occluders are not
        occluder = occlusion.occluder(whole := torch.ones(16, 1, 8, 8))
        loss = losses.visibility(visibility(occluder.over(whole)), ~occluder.covered)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    occluder = occlusion.occluder(whole)
    found = visibility(occluder.over(whole)) < 0
    assert (found == occluder.covered).float().mean() > 0.9
    latents, share = encode(occluder.over(whole)).split([1, 1], dim=-1)
    hidden = nn.functional.avg_pool2d(occluder.covered.float(), 2).flatten(1)[..., None]
    assert share[hidden == 1].mean() < 0.5 < share[hidden == 0].mean()
    assert latents[hidden == 1].mean() < 0 < latents[hidden == 0].mean()


COMPILED = """
import torch
from niso.networks.occlusion import RandomOcclusion

def cover(x):
    return occlusion(2 * x) + 1

def seeded(function):
    torch.manual_seed(0)
    return function(x)

occlusion, x = RandomOcclusion(0.5), torch.rand(4, 3, 8, 8)
print(torch.equal(seeded(cover), seeded(torch.compile(cover, backend="aot_eager"))), seeded(cover).unique().numel() > 1)
"""


def test_compiled_code_draws_the_same_numbers(outside):
    assert outside(COMPILED).split() == ["True", "True"]
