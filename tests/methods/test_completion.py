import torch
from torch import nn

from niso import losses
from niso.autoencoding import Autoencoding
from niso.methods.completion import CompletionObjective
from niso.networks.occlusion import RandomOcclusion


class Model(Autoencoding):
    def __init__(self) -> None:
        super().__init__(nn.Linear(64, 12), nn.Linear(12, 64))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x.flatten(1)).unflatten(1, (4, 3))

    def decode(self, a: torch.Tensor) -> torch.Tensor:
        return self.decoder(a.flatten(1)).unflatten(1, (1, 8, 8))


def test_coefficients_of_covered_images_come_near_those_of_whole_ones():
    model = Model()
    objective = CompletionObjective(model, RandomOcclusion(0.5), None)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.Adam([p for p in objective.parameters() if p.requires_grad], 0.01)
    values = []
    for _ in range(60):
        pattern = torch.randn(32, 1, 1, 8).expand(-1, 1, 8, 8)  # rows are alike: what is hidden can be known
        loss = objective.train()((pattern[:16], pattern[16:]), 0.0)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    assert sum(values[-10:]) < 0.7 * sum(values[:10])
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]) == name.startswith("decoder")
        assert torch.equal(objective.whole.state_dict()[name], before[name])


def test_what_is_seen_is_what_nothing_covers():
    class Told(nn.Module):
        """Sure of what is seen: what is not is NaN."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 20.0 - 40.0 * x.isnan().float()

    objective = CompletionObjective(Model(), RandomOcclusion(0.5, mark=True), Told())
    assert objective((torch.randn(4, 1, 8, 8),), 0.0)["visibility"] < 1e-6


def test_the_encoder_that_says_what_was_seen_before_is_never_in_training():
    objective = CompletionObjective(Model(), RandomOcclusion(0.5), None).train()
    assert objective.model.training and not objective.whole.training


def test_the_norm_is_what_was_asked_for():
    model, views, found = Model(), torch.randn(4, 1, 8, 8), []
    for norm in ("l1", "l2"):
        objective = CompletionObjective(model, RandomOcclusion(0.5), None, norm)
        torch.manual_seed(0)
        found.append(objective((views,), 0.0)["loss"])
        torch.manual_seed(0)
        seen = model.encode(objective.occlusion(views))
        torch.testing.assert_close(found[-1], losses.completion(seen, model.encode(views), norm))
    assert found[0] != found[1]


def test_nothing_covered_is_no_loss():
    objective = CompletionObjective(Model(), RandomOcclusion(0.0), None)
    assert objective((torch.randn(4, 1, 8, 8),), 0.0)["loss"] == 0


def test_the_loss_is_relative_to_the_spread(dtype):
    whole, seen = torch.randn(2, 8, 4, 3, dtype=dtype)
    loss = losses.completion(seen, whole)
    torch.testing.assert_close(losses.completion(5 * seen + 1, 5 * whole + 1), loss)
    torch.testing.assert_close(losses.completion(whole.mean(0).expand_as(whole), whole), torch.ones_like(loss))
