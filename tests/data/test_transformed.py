"""What training draws: images, and what random transformations make of them."""

import pytest
import torch

from niso.data.digits.mnist import pad
from niso.data.squares import signed
from niso.data.transformed import labelled, related
from niso.geometry.homographies import Homographies

ACTION = Homographies(background=-1.0)


class Recorded(Homographies):
    """Homographies that keep what they sample."""

    drawn: list[torch.Tensor] = []  # noqa: RUF012  # emptied by the fixture

    def sample(self, count: int, generator: torch.Generator | None = None) -> torch.Tensor:
        self.drawn.append(super().sample(count, generator))
        return self.drawn[-1]


@pytest.fixture
def recorded() -> Recorded:
    Recorded.drawn.clear()
    return Recorded()


def digits(count: int = 5, side: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, side, side), generator=random, dtype=torch.uint8)
    return pad(images, 4), torch.randint(10, (count,), generator=random)


def test_related_images_are_powers_of_one_transformation_of_the_digit(recorded):
    images, _ = digits()
    psi, t_psi, t2_psi = related(images, 6, recorded, views=3)
    (t,) = recorded.drawn
    known = signed(images)
    assert all((digit[0] == known).all(dim=(-2, -1)).any() for digit in psi)
    for power, view in ((t, t_psi), (t @ t, t2_psi)):
        expected = ACTION.act(psi, power)
        torch.testing.assert_close(view, expected, atol=2e-5, rtol=1e-5)
        assert view.shape == (6, 1, 16, 16) and view.dtype == torch.float32


def test_the_first_view_may_be_transformed_too(recorded):
    """Each digit by a transformation of its own, and then by the one that its group shares."""
    images, _ = digits()
    torch.manual_seed(0)
    upright, _ = related(images, 6, recorded, group=3)
    torch.manual_seed(0)
    psi, t_psi, t2_psi = related(images, 6, recorded, views=3, group=3, transformed_first=True)
    t, first = recorded.drawn[1:]
    t = t.repeat_interleave(3, dim=0)
    for power, view in ((first, psi), (t @ first, t_psi), (t @ t @ first, t2_psi)):
        torch.testing.assert_close(view, ACTION.act(upright, power), atol=2e-5, rtol=1e-5)


def test_views_share_their_beginning_and_seeds_decide():
    images, _ = digits()
    results = []
    for views in (1, 2, 3):
        torch.manual_seed(3)
        results.append(related(images, 4, ACTION, views))
    assert [len(result) for result in results] == [1, 2, 3]
    assert torch.equal(results[0][0], results[2][0])
    torch.testing.assert_close(results[1][1], results[2][1])
    assert not torch.equal(related(images, 4, ACTION)[1], results[1][1])


def test_a_group_shares_its_transformation():
    images = torch.zeros(3, 16, 16, dtype=torch.uint8)
    images[:, 5:11, 5:11] = 255  # all alike, so that only T differs
    _, warped = related(images, 12, ACTION, group=4)
    groups = warped.view(3, 4, -1)
    assert (groups == groups[:, :1]).all()
    assert not torch.equal(groups[0], groups[1]) and not torch.equal(groups[1], groups[2])


def test_the_number_of_processes_changes_nothing(monkeypatch):
    images, labels = digits()

    def draw(size: int) -> list[torch.Tensor]:
        torch.manual_seed(0)
        views = related(images, size, ACTION, views=3, group=2, transformed_first=True)
        return [*views, *labelled(images, labels, size, ACTION)]

    alone = draw(8)
    parts = []
    for rank in (0, 1):
        monkeypatch.setattr("niso.collective.process", lambda rank=rank: (rank, 2))
        parts.append(draw(8))
    for tensor, *halves in zip(alone, *parts, strict=True):
        torch.testing.assert_close(torch.cat(halves), tensor)


def test_labels_stay_with_their_images():
    images = torch.arange(10, dtype=torch.uint8)[:, None, None].expand(10, 6, 6)
    drawn, targets = labelled(images, torch.arange(10), 50)
    torch.testing.assert_close(drawn[:, 0, 0, 0], targets / 127.5 - 1)
    torch.manual_seed(0)
    plain, first = labelled(images, torch.arange(10), 50)
    torch.manual_seed(0)
    augmented, second = labelled(images, torch.arange(10), 50, ACTION)
    assert torch.equal(first, second) and not torch.equal(plain, augmented)


@pytest.mark.parametrize(("size", "views", "group"), [(6, 2, 4), (4, 0, 1), (4, 2, 0)])
def test_impossible_draws(size, views, group):
    with pytest.raises(ValueError, match="must be a multiple of group"):
        related(digits()[0], size, ACTION, views, group)
