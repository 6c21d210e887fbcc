"""Runs under occlusion, of every experiment that has them: from settings to metrics, curves and pictures."""

import json

import pytest
import torch

from niso.errors import InputError
from niso.experiments import map_figures, partial_views
from niso.experiments.settings import Settings
from niso.runs import runner
from niso.training.run import Run

pytestmark = pytest.mark.usefixtures("two_skips")
EVERY = pytest.mark.parametrize("name", ["homnist", "pose"])
METRIC = {"homnist": "accuracy", "pose": "rotation_error_deg"}
CURVE = {"homnist": "accuracy_by_covered_share", "pose": "rotation_error_by_covered_share"}
VALIDATION = {"homnist": {}, "pose": {"validation": 0.34}}


@pytest.mark.parametrize(
    ("name", "confidence"),
    [("homnist", "none"), *((name, confidence) for name in METRIC for confidence in ("given", "learned"))],
)
def test_occlusion_is_trained_with_and_measured(make_tiny, train_phases, drawn, name, confidence):
    experiment = make_tiny(name, occlusion=0.4, confidence=confidence, **VALIDATION[name])
    *_, pretrained, completed = train_phases(experiment)[:2]
    for key, weights in completed.items():  # after the same pretraining, only the encoder learns
        assert torch.equal(weights, pretrained[key]) or key.startswith("encoder."), key
    assert any(not torch.equal(weights, pretrained[key]) for key, weights in completed.items())
    result = experiment.evaluate()
    curve, key = result.curves[CURVE[name]], f"{METRIC[name]}_covered"
    assert curve["x"] == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert result.metrics[key] == pytest.approx(sum(curve["y"][1:]) / 4)
    assert {key, f"{key}_val"} <= result.metrics.keys() & {metric.key for metric in experiment.metrics}
    assert result.metrics.keys() <= {metric.key for metric in experiment.metrics}
    views = result.partial
    assert views.seen.shape == views.whole.shape == views.reconstructions.shape
    assert views.reconstructions.isfinite().all() and (views.seen != views.whole).any()
    assert abs(views.visible.mean() - 1 + partial_views.SHOWN) < 0.1
    assert (views.confidence is None) == (confidence == "none")
    if confidence == "given":
        guess = experiment.method.model.encoder.guess.detach().sigmoid()
        torch.testing.assert_close(views.confidence, guess + (1 - guess) * views.visible.square())
    elif confidence == "learned":
        assert views.confidence.shape == views.visible.shape
        assert views.confidence.amin() > 0 and views.confidence.amax() <= 1
        assert {"covered", "seen_in_part"} == set(drawn(type(experiment), result, "covered", "seen_in_part"))
    assert [picture.name for picture in map_figures.seen_in_part(views)] == ["seen_in_part"]


@EVERY
def test_runs_that_are_not_about_occlusion_measure_none(make_tiny, name):
    experiment = make_tiny(name)
    list(experiment.phases())
    result = experiment.evaluate()
    assert result.partial is None and CURVE[name] not in result.curves
    assert not any("covered" in key for key in result.metrics)


@EVERY
def test_pretraining_sees_whole_images(make_tiny, name):
    batches, latents = [], []
    for confidence in ("none", "given", "learned"):
        experiment = make_tiny(name, occlusion=1.0, confidence=confidence)
        torch.manual_seed(0)
        batches.append(next(experiment.phases()).sampler(0)[0])
        latents.append(experiment.method.encode(batches[-1]))
    for batch, a in zip(batches, latents, strict=True):
        assert torch.equal(batch, batches[0])
        torch.testing.assert_close(a, latents[0], rtol=1e-3, atol=1e-4)  # all is seen: coefficients are the usual ones


@EVERY
def test_a_share_and_a_confidence_that_make_no_sense_are_refused(make_tiny, name):
    with pytest.raises(ValueError, match="occlusion"):
        make_tiny(name, occlusion=1.5)
    for method in ("nft", "vit") if name == "pose" else ("autoencoder",):
        with pytest.raises(InputError, match="choose a method with an operator"):
            make_tiny(name, method=method, confidence="learned")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), [("homnist", "64-true"), ("pose", "bf16-mixed")])
def test_a_finished_run_is_evaluated_anew_with_the_same_result(tiny_settings, tmp_path, name, precision):
    settings = tiny_settings(name, occlusion=0.4, confidence="learned", precision=precision)
    runner.run(settings, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert Settings.load(run.settings, tmp_path).config == settings.config
    assert f"{METRIC[name]}_covered" in run.metrics and CURVE[name] in run.curves
    before = dict(run.metrics)
    runner.evaluate(tmp_path / "run")
    after = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert {key: value for key, value in after.items() if key.endswith("_covered")} == {
        key: value for key, value in before.items() if key.endswith("_covered")
    }
