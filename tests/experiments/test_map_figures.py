import pytest
import torch

from niso.experiments import map_figures
from niso.methods.evaluation.latents import singular_values
from niso.methods.evaluation.pairs import PairEvaluation


@pytest.mark.parametrize(("sizes", "above"), [([1.0, 0.77, 0.002], "2 of 3"), ([1.0, 1.0, 1.0], "3 of 3")])
def test_the_caption_of_singular_values_counts_what_is_not_small(sizes, above):
    curve = singular_values(torch.diag(torch.tensor(sizes)).expand(2_000, 3, 3))
    (picture,) = map_figures.singular_values(PairEvaluation({}, {}, None, {}, {"singular_values": curve}))
    assert f"over 2,000 held-out pairs. {above} are above 0.1." in picture.caption
    pairs = PairEvaluation({}, {}, None, {}, {"singular_values": curve})
    captions = [next(map_figures.singular_values(pairs, float(count))).caption for count in (2, 2_000, 2_001)]
    assert ["pairs of 2 observations." in caption for caption in captions] == [True, False, False]
    assert picture.figure.axes[0].get_yscale() == "log"


def test_a_shape_beside_the_middle_of_its_volume_is_seen():
    """A slice in the middle would be dark all over; of volumes that are full, the maximum would be bright all over."""
    volumes = torch.full((2, 1, 8, 6, 6), -1.0)
    volumes[:, :, 0, 2:4, 1] = 1.0
    assert map_figures.nearly_empty(volumes) and not map_figures.nearly_empty(
        torch.linspace(-1, 1, 64).view(1, 1, 4, 4, 4)
    )
    seen = map_figures.flattened(volumes, maximum=True)
    assert seen.shape == (2, 1, 6, 6) and (seen == 1).sum() == 4
    assert (map_figures.flattened(volumes, maximum=False) == -1).all()
