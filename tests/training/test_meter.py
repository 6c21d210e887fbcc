"""Means of the terms of a loss."""

import pytest
import torch

from niso.training.log import Log
from niso.training.meter import Meter
from tests.pretended import pretended_gpu


def terms(**values: float) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(value) for name, value in values.items()}


def test_meter_means_since_the_last_flush():
    meter = Meter()
    for value in (1.0, 2.0, 6.0):
        meter.add(terms(loss=value, part=value / 2))
    assert meter.flush() == {"loss": 3.0, "part": 1.5}
    meter.add(terms(loss=8.0))
    assert meter.flush() == {"loss": 8.0}


def test_meter_keeps_the_digits_of_each_term():
    meter = Meter()
    single, double = torch.tensor(0.1), torch.tensor(0.1, dtype=torch.float64)
    meter.add({"loss": single, "part": double, "half": single.half()})
    assert meter.flush() == {"loss": single.item(), "part": 0.1, "half": single.half().item()}
    assert meter.flush() == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_meter_takes_sums_up_as_if_it_had_not_stopped(dtype):
    values = torch.linspace(0.1, 0.7, 7, dtype=dtype) / 3
    whole, before, after = Meter(), Meter(), Meter()
    for value in values:
        whole.add({"loss": value})
    for value in values[:3]:
        before.add({"loss": value})
    after.go_on(before.count, before.sums())
    assert after.sums() == before.sums()
    for value in values[3:]:
        after.add({"loss": value})
    assert after.flush() == whole.flush()


def test_meter_takes_terms_of_two_devices():
    """As where a run goes on whose objective gives a term only now and then: what it gave before is on the CPU."""
    with pretended_gpu() as gpu:
        meter = Meter()
        meter.go_on(2, {"loss": 3.0, "rare": 1.0})
        meter.add({"loss": torch.tensor(4.0, device=gpu), "constant": torch.tensor(2.0)})
        assert meter.sums() == {"loss": 7.0, "rare": 1.0, "constant": 2.0}
        meter.add({"loss": torch.tensor(1.0, device=gpu), "rare": torch.tensor(3.0, device=gpu)})
        assert meter.flush() == {"loss": 2.0, "rare": 1.0, "constant": 0.5}


def test_meter_keeps_no_graph_and_does_not_change_its_input():
    meter, loss = Meter(), torch.tensor(2.0, requires_grad=True)
    for _ in range(3):
        meter.add({"loss": loss})
    assert loss.item() == 2.0 and meter.flush() == {"loss": 2.0}


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_meter_names_the_term_rather_than_the_total(bad):
    meter = Meter()
    meter.add(terms(loss=bad, good=1.0, part=bad))
    with pytest.raises(FloatingPointError, match="the term 'part' of the loss is not finite"):
        meter.check_finite()
    meter.flush()
    meter.add(terms(loss=bad, good=1.0))
    with pytest.raises(FloatingPointError, match="the term 'loss'"):
        meter.check_finite()
    meter.flush()
    meter.add(terms(loss=1.0))
    meter.check_finite()


@pytest.mark.parametrize("name", Log.FIXED)
def test_terms_are_not_named_as_columns_of_the_log(name):
    with pytest.raises(TypeError, match=f"column '{name}' of its own: give that term of the loss another name"):
        Meter().add(terms(loss=1.0, **{name: 2.0}))
