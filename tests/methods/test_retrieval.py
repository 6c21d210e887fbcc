"""Retrieval by invariants, and then by maps."""

from unittest.mock import NonCallableMock

import pytest
import torch

from niso.experiments.pairs.retrieval import retrieval, retrieved
from niso.functional_map import isometric_map
from niso.methods.method import Method
from niso.methods.retrieval import CANDIDATES, agreement, scores, similarity, tells_apart
from niso.networks.invariants import inner_products

RANK, CHANNELS = 12, 4


def made(eigenvalues):
    """What retrieval knows of a method: exact maps in the eigenspaces."""
    return NonCallableMock(Method, solve=lambda a, b: isometric_map(a, b, eigenvalues))


@pytest.fixture(params=[torch.float32, torch.float64])
def dtype(request):
    return request.param


@pytest.fixture
def blocks(dtype):
    """Eigenvalues in three blocks of four, far apart, and orthogonal maps that mix each block alone."""
    eigenvalues = torch.tensor([0.0, 20.0, 40.0], dtype=dtype).repeat_interleave(4)

    def moved(a):
        random = torch.Generator().manual_seed(1)
        for start in (0, 4, 8):
            turn = torch.linalg.qr(torch.randn(len(a), 4, 4, dtype=torch.float64, generator=random))[0].to(dtype)
            a = torch.cat([a[:, :start], turn @ a[:, start : start + 4], a[:, start + 4 :]], dim=1)
        return a

    return eigenvalues, moved


def coefficients(count, dtype):
    return torch.randn(count, RANK, CHANNELS, dtype=dtype, generator=torch.Generator().manual_seed(0))


def test_transformed_observations_are_found(blocks, dtype):
    eigenvalues, moved = blocks
    a = coefficients(3 * CANDIDATES, dtype)
    found = torch.cat([*scores(made(eigenvalues), moved(a), a)])
    assert found.shape == (3 * CANDIDATES, 3 * CANDIDATES) and found.argmax(1).tolist() == list(range(3 * CANDIDATES))
    torch.testing.assert_close(found.amax(1), torch.ones(3 * CANDIDATES, dtype=dtype), atol=1e-4, rtol=0)
    assert ((found >= -1.001).sum(1) == CANDIDATES).all() and (found <= 1.001).all()  # others stand below
    without = similarity(inner_products(moved(a)), inner_products(a))
    others = found < -1.001
    torch.testing.assert_close(found[others] + 3, without[others])


@pytest.mark.parametrize("size", [1e-15, 1e12])
def test_the_size_of_coefficients_makes_no_difference(size, blocks, dtype):
    eigenvalues, moved = blocks
    a = coefficients(30, dtype)
    found = torch.cat([*scores(made(eigenvalues), size * moved(a), size * a)])
    torch.testing.assert_close(found.amax(1), torch.ones(30, dtype=dtype), atol=1e-4, rtol=0)


def test_maps_tell_apart_what_invariants_do_not(dtype):
    """Maps are signs here: entries of all observations differ in their signs alone."""
    eigenvalues = 20 * torch.arange(RANK, dtype=dtype)  # maps are signs
    a = torch.ones(6, RANK, CHANNELS, dtype=dtype)
    a[:, :, 1:] *= 1 - 2 * torch.randint(2, (6, RANK, CHANNELS - 1), generator=torch.Generator().manual_seed(2)).to(
        dtype
    )
    a = a / a.norm(dim=1, keepdim=True)
    signs = 1 - 2 * torch.randint(2, (RANK, 1), generator=torch.Generator().manual_seed(3)).to(dtype)
    found = torch.cat([*scores(made(eigenvalues), signs * a, a)])
    assert found.argmax(1).tolist() == list(range(6))


@pytest.mark.parametrize("gallery", [2, 5])
def test_a_small_gallery_or_one_of_equal_observations(gallery, dtype):
    a = coefficients(1, dtype).expand(gallery, -1, -1)
    found = torch.cat([*scores(made(torch.arange(RANK, dtype=dtype)), a, a)])
    assert found.shape == (gallery, gallery) and found.isfinite().all()


@pytest.mark.parametrize("share", [1, 0.5, 0.3, -1])
def test_a_channel_that_is_there_twice_changes_nothing(share, dtype):
    """As that of a recording in mono that was saved as stereo: all invariants vary along one direction."""
    a = coefficients(200, dtype)[..., :1]
    views = a + 0.05 * coefficients(400, dtype)[200:, :, :1]
    twice, views_twice = (torch.cat([part, share * part], dim=-1) for part in (a, views))
    known = inner_products(a), inner_products(twice)
    single, double = (similarity(inner_products(v), k) for v, k in zip((views, views_twice), known, strict=True))
    right = torch.arange(200)
    expected = retrieved(single, right)
    assert retrieved(double, right) == pytest.approx(expected, abs=1e-3) and expected.mean_average_precision > 0.1
    for invariants in known:
        assert retrieved(similarity(invariants, invariants), right) == (1, 1)
    single, double = (
        torch.cat([*scores(made(20 * torch.arange(RANK, dtype=dtype)), part, part)]) for part in (a, twice)
    )
    for found in (single, double):
        assert (found.diagonal() == found.amax(1)).all() and (found > -1.001).sum(1).tolist() == [CANDIDATES] * 200


@pytest.mark.parametrize("noise", [0, 1e-4, 1e-3, 1e-2, 0.1, 1])
def test_observations_find_themselves_however_alike_channels_are(noise, dtype):
    a, other = coefficients(400, dtype)[..., :1].split(200)
    invariants = inner_products(torch.cat([a, a + noise * other], dim=-1))
    assert similarity(invariants, invariants).argmax(1).tolist() == list(range(200))


@pytest.mark.parametrize("features", [1, 3])
def test_two_observations_are_told_apart_by_cosines_or_distances_alike(features, dtype):
    """Of two, features always vary along one direction."""
    gallery = coefficients(2, dtype)[:, 0, :features]
    queries = coefficients(52, dtype)[2:, 0, :features]
    centred = (queries - gallery.mean(0)) / gallery.std(0, correction=0)
    cosines = centred @ (gallery - gallery.mean(0)).sign().mT
    assert similarity(queries, gallery).argmax(1).tolist() == cosines.argmax(1).tolist()


@pytest.mark.parametrize("channels", [1, 2, CHANNELS])
def test_observations_that_differ_in_size_alone_are_told_apart(channels, blocks, dtype):
    """Which isometries keep: cosines do not see it."""
    eigenvalues, moved = blocks
    a = coefficients(CANDIDATES // 2, dtype)[..., :channels]
    gallery = torch.cat([a, 0.9 * a])
    found = torch.cat([*scores(made(eigenvalues), moved(gallery), gallery)])
    assert found.argmax(1).tolist() == list(range(len(gallery)))


@pytest.mark.parametrize("size", [1e-30, 1, 1e30])
def test_coefficients_agree_by_their_distance_relative_to_both(size, dtype):
    a, b = (size * coefficients(20, dtype)).split(10)
    by_distance = 1 - ((a - b) / size).square().sum((1, 2)) / (
        (a / size).square().sum((1, 2)) + (b / size).square().sum((1, 2))
    )
    torch.testing.assert_close(agreement(a, b), by_distance, atol=1e-5, rtol=0)
    torch.testing.assert_close(agreement(a, 2 * a), torch.full((10,), 0.8, dtype=dtype))
    torch.testing.assert_close(agreement(a, -a), torch.full((10,), -1.0, dtype=dtype))
    assert (agreement(0 * a, 0 * a) == 0).all()


def test_agreement_does_not_exceed_one(dtype):
    a = coefficients(40, dtype)
    found = torch.cat([*scores(made(torch.arange(RANK, dtype=dtype)), a, a)])
    assert found.amax() <= 1 and found.diagonal().min() > 1 - 1e-5


def test_queries_of_other_channels_are_refused(dtype):
    a = coefficients(4, dtype)
    with pytest.raises(ValueError, match=r"queries must be .* with channels 4 as in gallery, not"):
        next(scores(made(torch.arange(RANK, dtype=dtype)), a[..., :3], a))


def test_observations_of_one_energy_are_all_compared_by_maps(blocks, dtype):
    """One channel has no invariant but its energy."""
    eigenvalues, moved = blocks
    a = torch.nn.functional.normalize(coefficients(3 * CANDIDATES, dtype)[..., :1], dim=1)
    found = torch.cat([*scores(made(eigenvalues), moved(a), a)])
    assert found.argmax(1).tolist() == list(range(len(a))) and (found >= -1.001).all()
    varying = a * torch.linspace(1, 2, len(a), dtype=dtype)[:, None, None]
    assert ((torch.cat([*scores(made(eigenvalues), varying, varying)]) >= -1.001).sum(1) == CANDIDATES).all()
    assert tells_apart(inner_products(coefficients(20, dtype) + 100)) and not tells_apart(inner_products(a))


@pytest.mark.parametrize("channels, queries", [(1, 3), (CHANNELS, 40)])
def test_few_are_looked_for_where_each_takes_a_map_from_every_one(channels, queries, blocks, dtype, monkeypatch):
    eigenvalues, moved = blocks
    monkeypatch.setattr("niso.experiments.pairs.retrieval.MAPS", 3 * 40)
    a, solved = torch.nn.functional.normalize(coefficients(40, dtype)[..., :channels], dim=1), list[int]()

    def solve(there, here):
        solved.append(len(here))
        return isometric_map(there, here, eigenvalues)

    method = NonCallableMock(Method, has_invariants=True, encode=lambda x: x, latents=lambda x: x, solve=solve)
    found = retrieval(method, [(a, moved(a))])
    assert found["retrieval_map_matched"] == found["retrieval_first_matched"] == 1
    assert sum(solved) == queries * (40 if channels == 1 else CANDIDATES)
