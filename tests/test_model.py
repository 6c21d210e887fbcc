"""NeuralIsometry: regimes, losses, dropout, precision, compilation, and processes."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch import nn

import niso
from niso import collective, losses
from niso.objective import IsometryObjective

POINTS, RANK, CHANNELS = 10, 6, 3


def make(dtype=torch.float64, rank=RANK, networks=True, **options):
    """A model whose spectrum is in general position, and whose networks are linear or the identity."""
    spectrum = niso.LearnedSpectrum(POINTS, rank, "sorted")
    with torch.no_grad():
        spectrum.mass_root.uniform_(0.5, 1.5)
    encoder, decoder = (
        (nn.Linear(CHANNELS, CHANNELS), nn.Linear(CHANNELS, CHANNELS)) if networks else (nn.Identity(),) * 2
    )
    return niso.NeuralIsometry(encoder, decoder, spectrum, **options).to(dtype)


def views(count, batch=4, dtype=torch.float64):
    return torch.randn(count, batch, POINTS, CHANNELS, dtype=dtype).unbind()


def assert_same(out, reconstruction, equivariance, model):
    torch.testing.assert_close(out.losses["reconstruction"], reconstruction)
    torch.testing.assert_close(out.losses["equivariance"], equivariance)
    torch.testing.assert_close(out.losses["multiplicity"], losses.multiplicity(model.spectrum().eigenvalues))


@pytest.mark.parametrize("mask", ["soft", "exact", None])
@pytest.mark.parametrize("special", [False, True])
def test_pairs(mask, special):
    model, (x, tx) = make(mask=mask, special=special), views(2)
    s = model.spectrum()
    a, b = s.project(model.encoder(x)), s.project(model.encoder(tx))
    tau = niso.isometric_map(a, b, s.eigenvalues, mask, special)
    out = model(x, tx)
    torch.testing.assert_close(out.map_ab, tau)
    torch.testing.assert_close(model.map_between(x, tx), tau)
    for latents, expected in zip(out.latents, (a, b), strict=True):
        torch.testing.assert_close(latents, expected)
    forth, back = model.decoder(s.unproject(tau @ a)), model.decoder(s.unproject(tau.mT @ b))
    reconstruction = (forth - tx).abs().mean() + (back - x).abs().mean()
    equivariance = (tau @ a - b).abs().mean() + (tau.mT @ b - a).abs().mean()
    assert_same(out, reconstruction, equivariance, model)
    torch.testing.assert_close(model.encode(x), a)
    torch.testing.assert_close(model.decode(a), model.decoder(s.unproject(a)))


@pytest.mark.parametrize("options", [{"norm": "l2"}, {"relative": True}, {"whitened": True}])
@pytest.mark.parametrize("count", [2, 3])
def test_losses_are_measured_as_asked(options, count):
    model, observed = make(**options), views(count)
    out, s = model(*observed), model.spectrum()
    (x, tx), (a, b) = observed[:2], out.latents[:2]
    if count == 2:
        moved, targets = (out.map_ab @ a, out.map_ab.mT @ b), (tx, x)
        equivariance = losses.equivariance(a, b, out.map_ab, **options)
    else:
        c, sigma = out.latents[2], model.map_between(tx, observed[2])
        moved, targets = (sigma @ a, out.map_ab @ b), (tx, observed[2])
        equivariance = losses.transport(a, b, moved[0], **options) + losses.transport(b, c, moved[1], **options)
    errors = [model.decoder(s.unproject(m)) - target for m, target in zip(moved, targets, strict=True)]
    reconstruction = sum((e.square() if "norm" in options else e.abs()).mean() for e in errors)
    assert_same(out, reconstruction, equivariance, model)


@pytest.mark.parametrize("mask", ["soft", None])
def test_gradients_of_maps_are_damped_as_asked(mask):
    model, (x, tx) = make(mask=mask, networks=False, damping=0.5), views(2)
    s, weights = model.spectrum(), torch.randn(4, RANK, RANK, dtype=x.dtype)
    a, b = s.project(x), s.project(tx)
    tau = niso.isometric_map(a, b, s.eigenvalues, mask, damping=0.5)
    found, expected = (
        torch.autograd.grad((weights * maps).sum(), model.spectrum.mass_root, retain_graph=True)[0]
        for maps in (model.map_between(x, tx), tau)
    )
    torch.testing.assert_close(found, expected)
    plain = niso.isometric_map(a, b, s.eigenvalues, mask)
    (undamped,) = torch.autograd.grad((weights * plain).sum(), model.spectrum.mass_root)
    assert (undamped - expected).norm() > 1e-3 * expected.norm()


def test_triplets_swap_their_maps():
    """Eq. 23–24: τ from (ψ, Tψ) acts on Tψ, and σ from (Tψ, T²ψ) acts on ψ."""
    model, (x, tx, ttx) = make(), views(3)
    s = model.spectrum()
    a, b, c = (s.project(model.encoder(v)) for v in (x, tx, ttx))
    tau, sigma = niso.isometric_map(a, b, s.eigenvalues), niso.isometric_map(b, c, s.eigenvalues)
    out = model(x, tx, ttx)
    torch.testing.assert_close(out.map_ab, tau)
    assert len(out.latents) == 3
    reconstruction = (model.decoder(s.unproject(sigma @ a)) - tx).abs().mean()
    reconstruction = reconstruction + (model.decoder(s.unproject(tau @ b)) - ttx).abs().mean()
    equivariance = (sigma @ a - b).abs().mean() + (tau @ b - c).abs().mean()
    assert_same(out, reconstruction, equivariance, model)
    unswapped = (tau @ a - b).abs().mean() + (sigma @ b - c).abs().mean()
    assert (unswapped - equivariance).abs() > 1e-3  # the two can be told apart


@pytest.mark.parametrize("group", [2, 3, 6])
@pytest.mark.parametrize("leave_one_out", [True, False])
def test_groups_equal_a_plain_loop(group, leave_one_out):
    model, (x, tx) = make(), views(2, batch=6)
    s = model.spectrum()
    a, b = s.project(model.encoder(x)), s.project(model.encoder(tx))
    maps = []
    for i in range(6):
        start = i // group * group
        members = [j for j in range(start, start + group) if not (leave_one_out and j == i)]
        stacked_a, stacked_b = (torch.cat([v[j] for j in members], dim=-1) for v in (a, b))
        maps.append(niso.isometric_map(stacked_a, stacked_b, s.eigenvalues))
    tau = torch.stack(maps)
    out = model(x, tx, group=group, leave_one_out=leave_one_out)
    torch.testing.assert_close(out.map_ab, tau)
    reconstruction = (model.decoder(s.unproject(tau @ a)) - tx).abs().mean()
    reconstruction = reconstruction + (model.decoder(s.unproject(tau.mT @ b)) - x).abs().mean()
    assert_same(out, reconstruction, losses.equivariance(a, b, tau=tau), model)


@pytest.mark.parametrize("leave_one_out", [True, False])
def test_a_group_of_one_is_a_pair(leave_one_out):
    model, (x, tx) = make(), views(2)
    plain, grouped = model(x, tx), model(x, tx, group=1, leave_one_out=leave_one_out)
    torch.testing.assert_close(grouped.map_ab, plain.map_ab, rtol=0, atol=0)
    assert grouped.losses == plain.losses


def test_a_large_member_of_a_group_does_not_drown_the_map_that_the_others_have():
    model, (x, tx) = make(torch.float32, networks=False), views(2, batch=4, dtype=torch.float32)
    plain = model(x, tx, group=4).map_ab[0]
    x[0], tx[0] = 1e5 * x[0], 1e5 * tx[0]
    torch.testing.assert_close(model(x, tx, group=4).map_ab[0], plain, rtol=0, atol=1e-4)


def test_leave_one_out_does_not_see_its_own_target():
    model, (x, tx) = make(), views(2, batch=3)
    changed = tx.clone()
    changed[0] = torch.randn_like(tx[0])
    before, after = (model(x, t, group=3).map_ab for t in (tx, changed))
    torch.testing.assert_close(before[0], after[0])
    assert (before[1:] - after[1:]).norm() > 1e-3


@given(
    batch=st.integers(1, 3),
    rank=st.integers(1, POINTS),
    regime=st.sampled_from(["pair", "triplet", "group"]),
    mask=st.sampled_from(["soft", "exact", None]),
    special=st.booleans(),
    double=st.booleans(),
    dropout=st.sampled_from([0.0, 1.0]),
)
def test_every_regime_gives_isometries_and_finite_gradients(batch, rank, regime, mask, special, double, dropout):
    """Also for one example, and for fewer channels than eigenfunctions."""
    dtype = torch.float64 if double else torch.float32
    model = make(dtype, rank, mask=mask, special=special, spectral_dropout=dropout)
    group = 2 if regime == "group" else 1
    out = model(*views(3 if regime == "triplet" else 2, batch * group, dtype), group=group)
    assert out.map_ab.shape == (batch * group, rank, rank) and out.map_ab.dtype == dtype
    niso.testing.assert_isometry(out.map_ab, tolerance=1e-12 if double else 1e-5)
    if special:
        det = torch.linalg.det(out.map_ab)
        torch.testing.assert_close(det, torch.ones_like(det), rtol=0, atol=1e-4)
    out.loss().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_loss_weights():
    out = make()(*views(2))
    r, e, m = (out.losses[name] for name in ("reconstruction", "equivariance", "multiplicity"))
    torch.testing.assert_close(out.loss(), r + 0.5 * e + 0.1 * m)
    torch.testing.assert_close(out.loss(equivariance=0.0, multiplicity=0.0), r)
    torch.testing.assert_close(out.loss(2.0, 3.0), r + 2 * e + 3 * m)


def test_objective():
    model, (x, tx) = make(), views(2)
    terms = IsometryObjective(model, equivariance=2.0, multiplicity=3.0, group=2)((x, tx), 0.5)
    out = model(x, tx, group=2)
    torch.testing.assert_close(terms["loss"], out.loss(2.0, 3.0))
    assert set(terms) == {"loss", "reconstruction", "equivariance", "multiplicity"}
    compared = IsometryObjective(model, 2.0, 3.0, contrastive=5.0, vicreg=7.0)((x, tx), 0.5)
    out = model(x, tx)
    terms = losses.contrastive(*out.latents), losses.vicreg(*out.latents)
    torch.testing.assert_close((compared["contrastive"], compared["vicreg"]), terms)
    torch.testing.assert_close(compared["loss"], out.loss(2.0, 3.0) + 5 * terms[0] + 7 * terms[1])
    triplet = IsometryObjective(model, 2.0, 3.0)(views(3), 0.0)
    assert triplet["loss"].isfinite()


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("training", [True, False])
def test_every_map_of_a_training_step_is_solved_with_the_same_noise(monkeypatch, count, training):
    model, solved = make().train(training), []
    solve = model._solve
    monkeypatch.setattr(model, "_solve", lambda covariance, s: (solved.append(s.eigenvalues), solve(covariance, s))[1])
    out = model(*views(count), eigenvalue_noise=0.5)
    values = model.spectrum().eigenvalues
    assert len(solved) == count - 1 and all(torch.equal(one, solved[0]) for one in solved)
    assert torch.equal(solved[0], values) == (not training)
    torch.testing.assert_close(out.losses["multiplicity"], losses.multiplicity(values))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_on_eigenvalues_unmixes_what_equal_ones_hide(dtype):
    """Two planes of a circle, mixed at 30° and at one eigenvalue: only with noise does a gradient see the angle."""
    angle = torch.full((), math.pi / 6, dtype=dtype, requires_grad=True)
    places = torch.arange(POINTS, dtype=dtype) * 2 * math.pi / POINTS
    first, second = (torch.stack([(n * places).cos(), (n * places).sin()], 1) * (2 / POINTS) ** 0.5 for n in (1, 2))

    class Mixed(nn.Module):
        def forward(self):
            turned = torch.cat(
                [first * angle.cos() + second * angle.sin(), second * angle.cos() - first * angle.sin()], 1
            )
            return niso.Spectrum(places.new_ones(POINTS), turned, places.new_zeros(4))

    model = niso.NeuralIsometry(nn.Identity(), nn.Identity(), Mixed(), norm="l2")
    x = torch.randn(4, POINTS, 30, dtype=dtype)

    def slope(noise, draws=1):
        loss = sum(model(x, x.roll(1, 1), eigenvalue_noise=noise).losses["reconstruction"] for _ in range(draws))
        return torch.autograd.grad(loss / draws, angle)[0]

    small = 1e-5 if dtype == torch.float32 else 1e-12
    assert abs(slope(0.0)) < small
    assert slope(1.0, draws=100) > 1e-3  # towards 0, where the planes are apart
    assert model(x, x, eigenvalue_noise=1.0).losses["multiplicity"] == losses.multiplicity(places.new_zeros(4))
    model.eval()
    assert abs(slope(1.0)) < small  # noise is for training


@pytest.mark.parametrize("decay", [None, 1e-4])
def test_noise_on_eigenvalues_decays_as_the_multiplicity_or_all_along(monkeypatch, decay):
    seen, model = [], make()
    forward = model.forward

    def spied(*views, eigenvalue_noise, **options):
        seen.append(eigenvalue_noise)
        return forward(*views, eigenvalue_noise=eigenvalue_noise, **options)

    monkeypatch.setattr(model, "forward", spied)
    noise = {"eigenvalue_noise": 2.0, "eigenvalue_noise_decay": decay}
    objective = IsometryObjective(model, 1.0, 4.0, multiplicity_decay=0.01, **noise)
    for progress in (0.0, 0.5, 0.8, 1.0):
        for share in (progress, torch.tensor(progress)):  # as a whole step that is compiled gets it
            objective(views(2), share)
            expected = objective.multiplicity_at(progress) / 2 if decay is None else 2 * decay**progress
            assert float(seen[-1]) == pytest.approx(expected)


def test_identity_networks_at_full_rank_make_the_losses_equivalent():
    """Paper §4.3: with identity networks, uniform mass and full rank, both measure the same error."""
    spectrum = niso.LearnedSpectrum(POINTS).double()
    model = niso.NeuralIsometry(nn.Identity(), nn.Identity(), spectrum)
    x = torch.randn(2, POINTS, 30).double()
    shifted = x.roll(1, 1)
    out = model(x, shifted)
    s = spectrum()
    spatial = s.spatial_map(out.map_ab)
    torch.testing.assert_close(
        out.losses["reconstruction"], (spatial @ x - shifted).abs().mean() + (spatial.mT @ shifted - x).abs().mean()
    )
    error = (out.map_ab @ out.latents[0] - out.latents[1]).square().sum()
    torch.testing.assert_close((spatial @ x - shifted).square().sum(), error)
    exact = niso.NeuralIsometry(nn.Identity(), nn.Identity(), spectrum, mask=None)(x, shifted)
    assert exact.losses["reconstruction"] < 1e-10  # a shift is an isometry of the uniform mass


def test_any_module_may_give_the_spectrum():
    class Fixed(nn.Module):
        def forward(self):
            return niso.Spectrum(torch.ones(POINTS), torch.eye(POINTS)[:, :4], torch.arange(4.0))

    out = niso.NeuralIsometry(nn.Identity(), nn.Identity(), Fixed())(*views(2, dtype=torch.float32))
    torch.testing.assert_close(out.latents[0].shape, torch.Size([4, 4, CHANNELS]))


# -- spectral dropout --------------------------------------------------------------------------------------------------


def test_dropout_comes_after_the_loss_of_maps_and_not_in_evaluation():
    model, pair = make(spectral_dropout=1.0), views(2, batch=20)
    trained = model(*pair).losses
    evaluated = model.eval()(*pair).losses
    assert trained["reconstruction"] != evaluated["reconstruction"]
    assert trained["equivariance"] == evaluated["equivariance"]
    a = model.encode(pair[0])
    assert not torch.equal(model.decode(a), model.train().decode(a))


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("world", [2, 4])
def test_processes_share_one_draw_of_the_dropout(monkeypatch, count, world):
    """The mean loss of all processes on their parts is the loss of one process on the whole batch."""
    model, batch = make(spectral_dropout=0.5), views(count, batch=8)
    torch.manual_seed(3)
    whole = model(*batch).loss()
    parts = []
    for rank in range(world):
        monkeypatch.setattr(collective, "process", lambda rank=rank: (rank, world))
        torch.manual_seed(3)
        parts.append(model(*(collective.local_part(view) for view in batch)).loss())
    torch.testing.assert_close(torch.stack(parts).mean(), whole)


# -- precision, bad calls, compilation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("regime", ["pair", "triplet"])
def test_autocast_leaves_the_spectral_part_in_float32(regime):
    model = make(torch.float32, networks=False)
    batch = views(2 if regime == "pair" else 3, dtype=torch.float32)
    plain = model(*batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(*batch)
        assert model.encode(batch[0]).dtype == torch.float32
    torch.testing.assert_close(out.map_ab, plain.map_ab, rtol=0, atol=0)
    assert out.losses == plain.losses
    networks = make(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = networks(*batch)
        out.loss().backward()
    niso.testing.assert_isometry(out.map_ab, tolerance=1e-5)
    assert {t.dtype for t in (out.map_ab, *out.latents, *out.losses.values())} == {torch.float32}
    assert all(p.grad.isfinite().all() for p in networks.parameters())


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_modules(half):
    model, batch = make(half), views(2, dtype=half)
    out = model(*batch)
    niso.testing.assert_isometry(out.map_ab, tolerance=1e-5)
    assert out.map_ab.dtype == out.loss().dtype == torch.float32
    out.loss().backward()
    assert all(p.grad.dtype == half and p.grad.isfinite().all() for p in model.parameters())


def test_a_confidence_that_is_no_share_is_refused():
    spectrum = niso.LearnedSpectrum(POINTS, RANK)
    model = niso.NeuralIsometry(nn.Identity(), nn.Identity(), spectrum, confidence=True)
    x = torch.randn(2, POINTS, CHANNELS + 1)
    x[..., -1] = torch.rand(2, POINTS)
    assert model.encode(x).shape == (2, RANK, CHANNELS)
    for wrong in (-0.5, 1.5):
        x[0, 0, -1] = wrong
        with pytest.raises(ValueError, match=r"must lie in \[0, 1\], not from .*: end it with a sigmoid"):
            model.encode(x)
    x[0, 0, -1] = math.nan
    assert model.encode(x).isnan().any()  # for what looks at the numerics


def test_bad_calls():
    model, (x, tx, ttx) = make(), views(3)
    with pytest.raises(ValueError, match="a batch of 4 observations cannot be cut into groups of 3"):
        model(x, tx, group=3)
    with pytest.raises(ValueError, match="group must be at least 1, got 0"):
        model(x, tx, group=0)
    with pytest.raises(ValueError, match="eigenvalue_noise must not be negative"):
        model(x, tx, eigenvalue_noise=-1.0)
    with pytest.raises(ValueError, match="with the exact mask maps are then signs"):
        make(mask="exact")(x, tx, eigenvalue_noise=0.1)
    make(mask="exact").eval()(x, tx, eigenvalue_noise=0.1)  # noise is for training
    with pytest.raises(ValueError, match="triplets and groups cannot be combined"):
        model(x, tx, ttx, group=2)
    with pytest.raises((ValueError, TypeCheckError), match=r"equally long|parameter tx"):
        model(x, tx[:2])
    with pytest.raises(ValueError, match="latents must be"):
        model(x[:, :-1], tx[:, :-1])


def test_state_dict_round_trip():
    model, other, batch = make(), make(), views(2)
    assert model(*batch).losses != other(*batch).losses
    other.load_state_dict(model.state_dict())
    assert model(*batch).losses == other(*batch).losses


COMPILED = """
import torch, niso
torch.manual_seed(0)
networks = torch.nn.Linear(3, 4), torch.nn.Linear(4, 3)
model = niso.NeuralIsometry(*networks, niso.LearnedSpectrum(10, 5), spectral_dropout=0.5)
x, tx = torch.randn(2, 4, 10, 3)
compiled = torch.compile(model, fullgraph=True, backend="aot_eager")  # inductor: a minute more
compiled(x, tx).loss().backward()  # in training, with dropout
model.zero_grad()
model.eval(), compiled.eval()
expected = model(x, tx)
expected.loss().backward()
grads = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
out = compiled(x, tx)
out.loss().backward()
torch.testing.assert_close(out.map_ab, expected.map_ab, rtol=0, atol=1e-4)
torch.testing.assert_close(out.loss(), expected.loss(), rtol=1e-4, atol=1e-5)
for p, g in zip(model.parameters(), grads):
    torch.testing.assert_close(p.grad, g, rtol=1e-2, atol=1e-3)

batch = {0: torch.export.Dim("batch")}
whole = torch.export.export(model, (x, tx), dynamic_shapes=(batch, batch)).module()
for size in (1, 4, 7):
    y, ty = torch.randn(2, size, 10, 3)
    torch.testing.assert_close(whole(y, ty)[1], model.map_between(y, ty), rtol=0, atol=1e-4)
print("done")
"""


@pytest.mark.slow
def test_compile_and_export(outside):
    assert outside(COMPILED).endswith("done\n")
