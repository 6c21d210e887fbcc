"""Every method of the registry keeps the protocol: shapes, maps, objectives, heads, and what it says it cannot do."""

import copy
from typing import get_args

import pytest
import torch
from torch import nn

from niso.config import Optimisation
from niso.errors import InputError
from niso.functional_map import isometric_map
from niso.geometry.domains.domain import box, quadrature_sphere
from niso.losses import Norm
from niso.methods import METHODS, methods_of
from niso.methods.config import ClassifierConfig, MethodConfig
from niso.methods.heads.rescaled import RescaledHead
from niso.methods.method import Method, Networks
from niso.networks import ConvConfig, EigenspaceHead, MLPConfig, SpectralHead, VectorNeuronConfig
from niso.spectrum import FixedSpectrum, Spectrum

CONV = ConvConfig(image_size=(8, 8), channels=(4,), blocks=1, latent_channels=5, stem_channels=3)
RANK, CLASSES, BATCH = 6, 3, 4
CONFIG = ClassifierConfig(
    rank=RANK,
    eigenvalues="shifted",
    group=2,
    nft_epochs=1,
    nft_maps=8,
    vector_neurons=VectorNeuronConfig(layers=1, channels=4, invariant_channels=4),
    mlp=MLPConfig(layers=1, channels=4),
)
WITH_MAPS = [name for name in METHODS if METHODS.find(name).has_maps]
INVARIANT = [name for name in METHODS if not METHODS.find(name).augmented_head]


class Wordless(METHODS.find("niso")):  # type: ignore[misc]
    pass


class Told(Wordless):
    """Maps (k × k)
    by chance (not in the paper). And more."""


def make(name: str, dtype: torch.dtype = torch.float32, **settings: object) -> Method:
    torch.manual_seed(0)
    config = ClassifierConfig(**{**vars(CONFIG), **settings})
    networks = Networks.convolutional(CONV, (8, 8), 1)
    method = METHODS.find(name)(config, networks)
    method.model.to(dtype)
    return method


def images(count: int = BATCH, dtype: torch.dtype = torch.float32, seed: int = 1) -> torch.Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(seed)).to(dtype)


def orthogonal(count: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    matrices = torch.randn(count, size, size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return torch.linalg.qr(matrices).Q.to(dtype)


def length(name: str) -> int:
    """Rows of the coefficients: the rank, or all points where a method does not reduce them."""
    return RANK if "rank" in METHODS.find(name).reads else CONV.points


def planted(spectrum: Spectrum) -> FixedSpectrum:
    """Eigenvalues all alike, so that every orthogonal map commutes with the operator."""
    return FixedSpectrum(*spectrum._replace(eigenvalues=torch.zeros_like(spectrum.eigenvalues)))


# Encoding and decoding


@pytest.mark.parametrize("name", METHODS)
def test_coefficients_have_a_row_for_every_unit_of_rank_and_decode_to_images(name, dtype):
    method = make(name, dtype)
    for given in (torch.float32, torch.float64):  # in whatever precision the data comes
        a = method.encode(images(dtype=given))
        assert a.shape == (BATCH, length(name), 5) and a.dtype == dtype
        assert method.decode(a.to(given)).shape == (BATCH, 1, 8, 8)
        assert torch.equal(method.head_features(images(dtype=given)), a)


@pytest.mark.parametrize("name", METHODS)
def test_coefficients_are_never_of_half_precision(name):
    method = make(name)
    exact = method.encode(images())
    method.precision = lambda: torch.autocast("cpu", torch.bfloat16)
    coarse = method.encode(images())
    assert coarse.dtype == torch.float32 and not torch.equal(coarse, exact)
    torch.testing.assert_close(coarse, exact, rtol=0, atol=0.1 * exact.abs().max().item())


@pytest.mark.parametrize("name", METHODS)
def test_models_of_half_precision_are_trained_and_decode(name):
    method = make(name)
    method.model.to(torch.bfloat16)
    x = [images(seed=seed).bfloat16() for seed in range(method.views)]
    method.objective()(tuple(x), 0.0)["loss"].backward()
    assert method.model.decode(method.model.encode(x[0])).dtype == torch.bfloat16


# Maps


@pytest.mark.parametrize("name", WITH_MAPS)
def test_a_solved_map_carries_the_first_coefficients_to_the_second(name, dtype, tolerance):
    method = make(name, dtype)
    if method.spectrum() is not None:
        method.model.spectrum = planted(method.spectrum())
    size = length(name)
    a = torch.randn(BATCH, size, 5, dtype=torch.float64).to(dtype)
    b = orthogonal(BATCH, size, dtype) @ a
    tau = method.solve(a, b)
    assert tau.shape == (BATCH, size, size) and tau.dtype == dtype
    slack = 10 * tolerance if method.isometric else 1e-5  # least squares have a ridge
    torch.testing.assert_close(tau @ a, b, rtol=0, atol=slack * b.abs().max().item())
    assert (tau.mT @ a - b).abs().max() > 0.1  # not the map of the other direction


@pytest.mark.parametrize("name", WITH_MAPS)
def test_the_map_of_an_observation_to_itself_keeps_it(name, dtype):
    method = make(name, dtype)
    a = method.encode(images(dtype=dtype))
    torch.testing.assert_close(method.solve(a, a) @ a, a, rtol=1e-3, atol=1e-3 * a.abs().max().item())


@pytest.mark.parametrize("complete", [False, True])
def test_maps_between_points_are_completed_where_that_is_asked_for(complete):
    method = make("niso-no-basis", complete=complete)
    tau = method.solve(method.encode(images()), method.encode(images(seed=3)))
    identity = torch.eye(CONV.points).expand_as(tau)
    assert torch.allclose(tau.mT @ tau, identity, atol=1e-4) == complete


def test_maps_are_solved_without_the_eigenfunctions(monkeypatch):
    method = make("niso")
    a, b = torch.randn(2, BATCH, RANK, 5)
    expected = method.solve(a, b), method.mask()
    monkeypatch.setattr("niso.spectrum.table.polar", None)  # Φ takes a decomposition, also where it is frozen
    assert all(torch.equal(*pair) for pair in zip(expected, (method.solve(a, b), method.mask()), strict=True))


def test_a_method_without_maps_says_so():
    assert "autoencoder" not in WITH_MAPS
    for name in METHODS.keys() - set(WITH_MAPS):
        a = torch.zeros(1, length(name), 5)
        with pytest.raises(TypeError, match=f"{METHODS.find(name).__name__} has no maps"):
            make(name).solve(a, a)


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_learns_of_an_operator(name, dtype):
    method = make(name, dtype)
    spectrum, mask = method.spectrum(), method.mask()
    assert (spectrum is None) == ("spectrum" not in method.reads)
    assert (mask is None) == ("eigenvalues" not in method.reads)
    if spectrum is not None:
        assert [tuple(part.shape) for part in spectrum] == [(CONV.points,), (CONV.points, RANK), (RANK,)]
    if mask is not None:
        assert mask.shape == (RANK, RANK)
        torch.testing.assert_close(mask, mask.mT)
        torch.testing.assert_close(mask.diagonal(), torch.ones(RANK, dtype=dtype))
        assert (mask > 0).all() and (mask <= 1).all() and mask.min() < 1


# Objectives


@pytest.mark.parametrize("name", METHODS)
def test_the_objective_has_gradients_for_every_view(name, dtype):
    method = make(name, dtype)
    views = [images(dtype=dtype, seed=seed).requires_grad_() for seed in range(method.views)]
    terms = method.objective()(tuple(views), 0.5)
    assert all(term.ndim == 0 and term.dtype == dtype and term.isfinite() for term in terms.values())
    terms["loss"].backward()
    for view in views:
        assert view.grad.isfinite().all() and (view.grad.flatten(1).norm(dim=1) > 0).all()
    gradients = {key: parameter.grad for key, parameter in method.model.named_parameters()}
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients.values())


def test_methods_need_the_views_and_groups_that_they_say():
    kinds = {name: (METHODS.find(name).views, METHODS.find(name).grouped, make(name).group) for name in METHODS}
    assert kinds["niso-triplet"] == kinds["nft-triplet"] == (3, False, 1)
    assert kinds["niso-group"] == kinds["niso-group-vicreg"] == (2, True, 2)
    assert kinds["niso"] == kinds["nft"] == kinds["autoencoder"] == (2, False, 1)
    assert all(grouped == (group > 1) for _, grouped, group in kinds.values())


def test_the_members_of_a_group_are_mapped_by_the_others():
    x, tx = images(), images(seed=3)
    alone = make("niso")
    losses = {
        leave_one_out: make("niso-group", leave_one_out=leave_one_out).objective()((x, tx), 0.0)["loss"]
        for leave_one_out in (True, False)
    }
    pairs = alone.objective()((x, tx), 0.0)["loss"]
    assert len({round(loss.item(), 6) for loss in (*losses.values(), pairs)}) == 3
    with pytest.raises(ValueError, match="cannot be cut into groups of 2"):
        make("niso-group").objective()((x[:3], tx[:3]), 0.0)


def test_ablations_leave_one_term_out():
    expected = {
        "niso": (0.5, 0.1, 0.0, 0.0, "soft"),
        "niso-triplet": (0.5, 0.1, 0.0, 0.0, "soft"),
        "niso-group": (0.5, 0.1, 0.0, 0.0, "soft"),
        "niso-contrastive": (0.5, 0.1, 0.1, 0.0, "soft"),
        "niso-vicreg": (0.5, 0.1, 0.0, 0.3, "soft"),
        "niso-group-vicreg": (0.5, 0.1, 0.0, 0.3, "soft"),
        "niso-no-equivariance": (0.0, 0.1, 0.0, 0.0, "soft"),
        "niso-no-multiplicity": (0.5, 0.0, 0.0, 0.0, "soft"),
        "niso-no-operator": (0.5, 0.0, 0.0, 0.0, None),
    }
    for name, terms in expected.items():
        o = make(name).objective()
        assert (o.equivariance, o.multiplicity, o.contrastive, o.vicreg, o.model.mask) == terms, name


@pytest.mark.parametrize("name", ["niso", "niso-triplet", "niso-group", "niso-vicreg", "niso-no-basis"])
def test_a_relative_weight_replaces_the_absolute_one(name):
    for relative, weight in ((None, 0.5), (0.03, 0.03), (0.0, 0.0)):
        objective = make(name, relative_equivariance=relative).objective()
        assert objective.model.relative is (relative is not None)
        assert objective.equivariance == weight


@pytest.mark.parametrize("norm", get_args(Norm))
@pytest.mark.parametrize("name", METHODS)
def test_every_method_obeys_the_norm(name, norm):
    method = make(name, norm=norm)
    views = [images(seed=seed) for seed in range(method.views)]
    terms = method.objective()(tuple(views), 0.0)
    others = make(name, norm="l1" if norm == "l2" else "l2").objective()(tuple(views), 0.0)
    assert terms["reconstruction"] != others["reconstruction"]
    if name == "autoencoder":
        x = torch.cat(views)
        error = method.model(x) - x
        expected = error.abs().mean() if norm == "l1" else error.square().mean()
        torch.testing.assert_close(terms["loss"], expected)


# Heads


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("name", METHODS)
def test_heads_do_not_see_orthogonal_maps_unless_they_are_to_learn_that(name, variant, dtype):
    neurons = VectorNeuronConfig(variant=variant, layers=1, channels=4, invariant_channels=4)
    method = make(name, dtype, vector_neurons=neurons)
    features = method.head_features(images(dtype=dtype))
    head = method.head(method.config, features, CLASSES).to(dtype)
    scores = head(features)
    assert scores.shape == (BATCH, CLASSES) and scores.dtype == dtype
    moved = head(orthogonal(BATCH, length(name), dtype) @ features)
    if name in INVARIANT:
        tolerance = 1e-4 if dtype == torch.float32 else 1e-10
        torch.testing.assert_close(moved, scores, rtol=0, atol=tolerance * scores.abs().max().item())
    else:
        assert (moved - scores).abs().max() > 1e-3 * scores.abs().max()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("classifier", "kind"), [("spectral", SpectralHead), ("eigenspaces", EigenspaceHead)])
def test_some_heads_are_for_maps_that_commute_with_an_operator(name, classifier, kind):
    method = make(name, classifier=classifier)
    features = method.head_features(images())
    head = method.head(method.config, features, CLASSES)
    spectral = any(isinstance(module, kind) for module in head.modules())
    assert spectral == (method.spectrum() is not None and method.mask() is not None)
    assert head(features).shape == (BATCH, CLASSES)


@pytest.mark.parametrize("name", ["niso", "autoencoder"])
def test_the_scale_of_features_makes_no_difference_to_a_head(name):
    method = make(name)
    features, scores = method.head_features(images()), []
    for factor in (1.0, 1e-3):
        torch.manual_seed(0)
        scores.append(method.head(method.config, factor * features, CLASSES)(factor * features))
    torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-5)


# After the pre-training


@pytest.mark.parametrize("name", METHODS)
def test_only_what_is_block_diagonalised_changes_after_pretraining(name):
    asked = []

    def pairs(count):
        asked.append(count)
        yield images(count, seed=4), images(count, seed=5)

    method = make(name)
    before = copy.deepcopy(method.model.state_dict())
    state = torch.get_rng_state()
    method.after_pretraining(pairs, seed=0)
    changed = [key for key, value in method.model.state_dict().items() if not torch.equal(value, before[key])]
    assert (changed, asked) == ((["basis"], [8]) if "nft_epochs" in method.reads else ([], []))
    assert torch.equal(torch.get_rng_state(), state)


def test_nft_can_do_without_its_block_diagonalisation():
    method = make("nft", nft_epochs=0)
    method.after_pretraining(lambda count: pytest.fail("no maps are needed"), seed=0)
    assert torch.equal(method.model.basis, torch.eye(RANK))


def test_the_block_diagonalisation_makes_maps_more_block_diagonal_and_is_seeded():
    from niso.methods.block_diagonal import block_diagonal_loss

    def pairs(count):
        yield images(count, seed=4), images(count, seed=5)

    x, tx = next(pairs(8))
    bases, losses = [], []
    for epochs, seed in ((0, 0), (30, 0), (30, 0), (30, 1)):
        method = make("nft", nft_epochs=epochs)
        method.after_pretraining(pairs, seed=seed)
        bases.append(method.model.basis)
        maps = method.solve(method.encode(x), method.encode(tx)).detach()
        losses.append(block_diagonal_loss(maps.mT, torch.eye(RANK)).item())
    assert losses[1] < losses[0]
    assert torch.equal(bases[1], bases[2]) and not torch.equal(bases[1], bases[3])


# The registry


def test_methods_are_found_by_name():
    for name in METHODS:
        kind = METHODS.find(name)
        assert issubclass(kind, Method) and kind.__doc__ and kind.map_text
    with pytest.raises(InputError, match=r"unknown method 'niso-grop'; did you mean niso-group\?"):
        METHODS.find("niso-grop")


def test_data_decides_which_methods_suit():
    def differing(**data):
        return set(methods_of(views=3, grouped=True)) - set(methods_of(**{"views": 3, "grouped": True, **data}))

    assert methods_of(views=3, grouped=True) == tuple(METHODS)
    assert {"niso-triplet", "nft-triplet"} <= differing(views=2) and "niso" not in differing(views=2)
    assert {"niso-group", "niso-group-vicreg"} <= differing(grouped=False) and "niso" not in differing(grouped=False)
    assert differing(maps=True) == METHODS.keys() - set(WITH_MAPS)
    assert set(methods_of()) == METHODS.keys() - differing(views=2) - differing(grouped=False)
    assert methods_of()[0] == "niso"


# Settings


def test_a_rank_is_bounded_by_the_points():
    for name in METHODS:
        if length(name) == RANK:
            with pytest.raises(ValueError, match=f"rank.*{CONV.points}"):
                make(name, rank=CONV.points + 1)
    assert make("niso", rank=None).encode(images()).shape == (BATCH, CONV.points, 5)


def test_the_model_has_the_settings_of_the_configuration():
    settings = {"eigenfunctions": "rotation", "special": True, "damping": 1e-3, "spectral_dropout": 0.5, "norm": "l2"}
    networks = Networks(nn.Identity(), nn.Identity(), (3, 3), 2)
    model = METHODS.find("niso")(MethodConfig(**settings), networks).model
    assert (model.special, model.damping, model.dropout.probability, model.norm) == (True, 1e-3, 0.5, "l2")
    assert model.spectrum.eigenfunction_kind == "rotation" and model.spectrum.rank == 9


@pytest.mark.parametrize("spectrum", ["table", "field"])
def test_the_spectrum_has_the_settings_of_the_configuration(spectrum):
    settings = {"rank": 4, "eigenvalues": "sorted", "eigenfunctions": "rotation", "damping": 0.5}
    networks = Networks(nn.Identity(), nn.Identity(), (4, 4), 2, quadrature_sphere)
    made = METHODS.find("niso")(MethodConfig(spectrum=spectrum, **settings), networks).model.spectrum
    assert (made.eigenvalue_kind, made.eigenfunction_kind, made.rank, made.points) == ("sorted", "rotation", 4, 16)
    if spectrum == "table":
        assert made.damping == 0.5
    else:
        torch.testing.assert_close((made.places, made.weights), tuple(part.float() for part in quadrature_sphere(4, 4)))


@pytest.mark.parametrize(("axes", "largest"), [(2, 4), (3, 3)])
def test_a_table_may_start_smooth(axes, largest):
    """As products of cosines, nearly: the eigenfunctions of the Laplacian on a square or a cube."""
    networks = Networks(nn.Identity(), nn.Identity(), (7,) * axes, 2)
    waves = torch.cartesian_prod(*[torch.arange(3)] * axes)
    waves = waves[waves.square().sum(1) <= largest]  # in eigenvalue
    method = METHODS.find("niso")(MethodConfig(rank=len(waves), start="smooth"), networks)
    angles = (torch.cartesian_prod(*[torch.arange(7)] * axes) + 0.5) * torch.pi / 7
    expected = torch.linalg.qr((angles[:, None] * waves).cos().prod(-1)).Q
    assert torch.linalg.matrix_norm(expected.mT @ method.spectrum().eigenfunctions) ** 2 > 0.95 * len(waves)


def test_a_field_is_learned_on_the_grid_of_volumes():
    networks = Networks(nn.Identity(), nn.Identity(), (2, 3, 4), 2)
    model = METHODS.find("niso")(MethodConfig(spectrum="field", rank=5), networks).model.spectrum
    torch.testing.assert_close(model.places, box(2, 3, 4).points.float())
    functions = model().eigenfunctions
    assert functions.shape == (24, 5) and torch.linalg.matrix_rank(functions) == 5


def test_the_objective_has_the_settings_of_the_configuration():
    settings = {
        **{"multiplicity": 0.3, "multiplicity_decay": 0.7, "eigenvalue_noise": 0.2, "eigenvalue_noise_decay": 0.4},
        **{"contrastive": 0.6, "vicreg": 0.8, "group": 2, "leave_one_out": False},
    }
    for name, others in (
        ("niso", {"contrastive": 0.0, "vicreg": 0.0, "group": 1, "leave_one_out": True}),
        ("niso-contrastive", {"vicreg": 0.0, "group": 1, "leave_one_out": True}),
        ("niso-group-vicreg", {"contrastive": 0.0}),
    ):
        objective = make(name, whitened=True, **settings).objective()
        assert {setting: getattr(objective, setting) for setting in settings} == settings | others
        assert objective.model.whitened


def test_a_head_may_see_nothing_but_zeros():
    zeros = torch.zeros(3, RANK, 5)
    assert RescaledHead(nn.Flatten(), zeros)(zeros).eq(0).all()


@pytest.mark.parametrize("special", [False, True])
def test_maps_are_solved_by_the_settings_of_the_configuration(special):
    method, a = make("niso", special=special, damping=0.5), torch.randn(3, RANK, 9).requires_grad_()
    b, values, weights = torch.randn_like(a), method.spectrum().eigenvalues, torch.randn(3, RANK, RANK)
    expected = isometric_map(a, b, values, "soft", special, 0.5)
    found = method.solve(a, b)
    torch.testing.assert_close(found, expected)
    assert not special or (torch.linalg.det(found) > 0).all()
    gradients = (torch.autograd.grad((weights * tau).sum(), a, retain_graph=True)[0] for tau in (found, expected))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"rank": 0}, "rank must be at least 1, got 0"),
        ({"evaluation_pairs": 1}, "evaluation_pairs must be at least 2"),
        ({"equivariance": -1.0}, "equivariance must not be negative"),
        ({"multiplicity": float("nan")}, "multiplicity must not be negative"),
        ({"multiplicity_decay": 1.5}, "multiplicity_decay must be at most 1"),
        ({"eigenvalue_noise": -0.1}, "eigenvalue_noise must not be negative"),
        ({"eigenvalue_noise_decay": 1.5}, "eigenvalue_noise_decay must be at most 1"),
        ({"spectral_dropout": 1.5}, "spectral_dropout must be at most 1"),
        ({"relative_equivariance": -0.1}, "relative_equivariance must not be negative"),
        ({"contrastive": -0.1}, "contrastive must not be negative"),
        ({"nft_epochs": -1}, "nft_epochs must not be negative, got -1"),
        ({"nft_maps": 0}, "nft_maps must be at least 1, got 0"),
        ({"group": 0}, "group must be at least 1, got 0"),
        ({"classifier": "spectral", "head": Optimisation(batch_size=1)}, "over a batch: take a larger one"),
        ({"classifier": "eigenspaces", "head": Optimisation(accumulation=2)}, "over a batch: accumulate none"),
    ],
)
def test_bad_settings_are_named(bad, message):
    with pytest.raises(ValueError, match=message):
        ClassifierConfig(**bad)


def test_settings_of_methods_have_no_groups_where_data_has_none():
    assert not hasattr(MethodConfig(), "group")


def test_a_method_without_words_of_its_own_is_not_taken_for_another(registries):
    METHODS["wordless"], METHODS["told"] = f"{__name__}.Wordless", f"{__name__}.Told"
    assert METHODS.find("wordless").about() == "" and METHODS.find("told").about() == "Maps by chance"
