"""Every head in the registry: maps that it is for do not change its scores. A new one is tested by these, too."""

from dataclasses import fields, replace

import pytest
import torch

from niso.errors import InputError
from niso.methods import METHODS
from niso.methods.config import ClassifierConfig
from niso.methods.heads import HEADS
from niso.testing import relative_error


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", HEADS)
def test_maps_that_a_head_is_for_do_not_change_its_scores(name, dtype):
    kind = HEADS.find(name)
    a, values = torch.randn(8, 6, 5, dtype=dtype), torch.tensor([0.0, 1, 1, 1, 4, 4], dtype=dtype)
    eigenspaces = [1, 3, 2] if kind.of_operator else [6]
    maps = [torch.linalg.qr(torch.randn(8, size, size, dtype=dtype))[0] for size in eigenspaces]
    tau = torch.stack([torch.block_diag(*parts) for parts in zip(*maps, strict=True)])
    eigenvalues = values if kind.of_operator else None
    head = kind.make(a, 3, ClassifierConfig(classifier=name), eigenvalues).to(dtype)
    head(a).sum().backward()  # standardisation has seen a batch
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())
    head.eval()
    assert head(a).shape == (8, 3)
    assert relative_error(head(tau @ a), head(a)) < (1e-3 if dtype == torch.float32 else 1e-10)


@pytest.mark.parametrize("name", HEADS)
def test_settings_of_a_head_are_groups_of_settings(name):
    kind, config = HEADS.find(name), ClassifierConfig(classifier=name)
    names = {field.name for field in fields(config)}
    assert kind.reads <= names and {path.partition(".")[0] for path in kind.unread(config)} <= names


def test_the_first_head_is_for_every_method():
    kind = HEADS.find(next(iter(HEADS)))
    assert not kind.of_operator and ClassifierConfig().classifier == next(iter(HEADS))


def test_an_unknown_head_is_refused():
    with pytest.raises(ValueError, match=r'classifier must be "vector-neurons", .* or "eigenspaces", not .none.'):
        ClassifierConfig(classifier="none")


def test_an_entry_that_is_no_head_harms_no_method(monkeypatch):
    monkeypatch.setitem(HEADS, "bad", "niso.networks.MLP")
    assert "bad" not in METHODS.find("niso").heads() and METHODS.find("niso").settings()
    with pytest.raises(InputError, match=r"'bad': niso\.networks\.MLP is no subclass of niso\.methods\.heads"):
        HEADS.find("bad")


@pytest.mark.parametrize(
    ("name", "group", "variant"),
    [
        ("vector-neurons", "vector_neurons", "paper"),
        ("vector-neurons", "vector_neurons", "released"),
        ("spectral", "spectral_head", None),
        ("eigenspaces", "eigenspace_head", None),
    ],
)
def test_a_setting_of_a_head_that_is_not_read_changes_nothing_and_any_other_does(name, group, variant):
    kind, config = HEADS.find(name), ClassifierConfig(classifier=name)
    if variant:
        config = replace(config, **{group: replace(getattr(config, group), variant=variant)})
    unread = {path.partition(".")[2] for path in kind.unread(config)}
    generator = torch.Generator().manual_seed(0)
    a, eigenvalues = torch.randn(4, 9, 5, generator=generator), torch.arange(9.0).square()

    def scores(config):
        torch.manual_seed(0)
        return kind.make(a, 3, config, eigenvalues if kind.of_operator else None)(a)

    before = scores(config)
    for name, value in vars(getattr(config, group)).items():
        if isinstance(value, int | float):
            changed = replace(getattr(config, group), **{name: value + 1 if isinstance(value, int) else value / 2})
            assert torch.equal(scores(replace(config, **{group: changed})), before) == (name in unread), name
