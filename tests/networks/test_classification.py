import pytest
import torch
from torch import nn

from niso.networks.classification import ClassificationObjective


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def objective_on(backbone: nn.Module, **options) -> ClassificationObjective:
    return ClassificationObjective(backbone, nn.Linear(6, 3), backbone.encode, **options)


def batch(size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(size, 4), torch.arange(size) % 3


def test_terms():
    objective = objective_on(Backbone())
    x, labels = batch()
    terms = objective((x, labels), 0.0)
    scores = objective.scores(x)
    torch.testing.assert_close(terms["loss"], nn.functional.cross_entropy(scores, labels))
    assert terms["accuracy"] == (scores.argmax(-1) == labels).float().mean()
    assert set(terms) == {"loss", "accuracy"} and not terms["accuracy"].requires_grad


def test_smoothed_labels_are_shared_by_all_classes():
    objective = objective_on(Backbone(), smoothing=0.3).eval()
    x, labels = batch()
    rates = objective.scores(x).log_softmax(-1)
    shares = 0.7 * nn.functional.one_hot(labels, 3) + 0.3 / 3
    torch.testing.assert_close(objective((x, labels), 0.0)["loss"], -(shares * rates).sum(-1).mean())


def test_a_frozen_backbone_never_moves():
    torch.manual_seed(0)
    backbone = Backbone()
    before = {name: p.clone() for name, p in backbone.state_dict().items()}
    objective = objective_on(backbone).train()
    assert objective.head.training and not any(module.training for module in backbone.modules())
    trained = [p for p in objective.parameters() if p.requires_grad]
    assert {id(p) for p in trained} == {id(p) for p in objective.head.parameters()}
    optimizer = torch.optim.AdamW(trained, lr=0.1, weight_decay=0.1)
    first = objective(batch(), 0.0)["loss"]
    first.backward()
    optimizer.step()
    assert all(p.grad is None for p in backbone.parameters())
    for name, p in backbone.state_dict().items():
        assert torch.equal(p, before[name])


@pytest.mark.parametrize(
    ("frozen", "inside", "seen"), [(False, True, True), (False, False, False), (True, True, False)]
)
def test_features_have_gradients_only_where_they_are_wanted(frozen, inside, seen):
    found = []
    encode = lambda x: (found.append(torch.is_grad_enabled()), x)[1]  # noqa: E731
    objective = ClassificationObjective(nn.Identity(), nn.Linear(4, 3), encode, frozen)
    with torch.set_grad_enabled(inside):
        objective.scores(torch.randn(2, 4))
        assert found == [seen] and torch.is_grad_enabled() == inside


def test_an_unfrozen_backbone_trains():
    objective = objective_on(Backbone(), frozen=False).train()
    assert objective.backbone.training
    objective(batch(), 0.0)["loss"].backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in objective.parameters())
    with torch.no_grad():
        assert not objective.scores(torch.randn(2, 4)).requires_grad


def test_features_can_be_given():
    """A frozen backbone's features may be computed once and for all."""
    backbone, head = Backbone().eval(), nn.Linear(6, 3)
    x, labels = batch()
    direct = ClassificationObjective(backbone, head, backbone.encode)((x, labels), 0.0)
    with torch.no_grad():
        features = backbone.encode(x)
    ready = ClassificationObjective(backbone, head, encode=nn.Identity())((features, labels), 0.0)
    torch.testing.assert_close(direct, ready)


def test_the_state_is_that_of_the_whole_classifier():
    objective = objective_on(Backbone())
    assert {name.split(".")[0] for name in objective.state_dict()} == {"backbone", "head"}


def test_further_losses_are_added():
    backbone = Backbone().eval()
    seen = []

    def also(views: tuple[torch.Tensor, ...], progress: float) -> dict[str, torch.Tensor]:
        seen.append((len(views), progress))
        return {"loss": backbone.encode(views[0]).square().mean(), "term": torch.ones(())}

    objective = objective_on(backbone, frozen=False, also=also)
    x, labels = batch()
    terms = objective((x, labels, x, x), 0.25)
    plain = nn.functional.cross_entropy(objective.scores(x), labels)
    torch.testing.assert_close(terms["loss"], plain + backbone.encode(x).square().mean())
    assert seen == [(2, 0.25)] and terms.keys() == {"loss", "accuracy", "term"}
