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
