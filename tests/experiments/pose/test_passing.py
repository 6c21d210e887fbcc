"""Objects that pass in front of the cameras of sequences."""

import pytest
import torch

from niso.experiments.pose import evaluation, passing
from niso.experiments.pose.passing import SKIP


def numbers(count: int, sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((count,), sequence), torch.arange(count)


def test_each_sequence_has_an_object_of_its_own_that_its_name_and_the_seed_determine(make):
    frames = make().frames
    objects = passing.passing(frames, 0, 0.4, mark=True)
    assert len(objects.share) == len(frames.names) and objects.share.unique().numel() == len(frames.names)
    assert objects.share.min() >= 0 and objects.share.max() <= 0.4
    again, other = (passing.passing(frames, seed, 0.4, mark=True) for seed in (0, 1))
    assert torch.equal(again.objects.start, objects.objects.start)
    assert not torch.equal(other.objects.start, objects.objects.start)
    mirrored = make(mirrored=True).frames
    more = passing.passing(mirrored, 0, 0.4, mark=True)
    assert torch.equal(more.objects.start[: len(frames.names)], objects.objects.start)


@pytest.mark.parametrize("mark", [True, False])
def test_objects_hide_their_share_of_every_frame_and_nothing_else(make, mark):
    frames = make().frames
    for objects in passing.covering(frames, 0, (0.0, 0.25, 0.5), mark):
        sequence, frame = numbers(9, 1)
        clean, seen = frames(sequence, frame), objects(sequence, frame)
        hidden = objects.occluder(clean.device, sequence, frame).covered.expand_as(clean)
        assert abs(hidden.float().mean() - objects.share[0]) < 0.05
        assert torch.equal(seen[~hidden], clean[~hidden])
        assert seen[hidden].isnan().all() if mark else not torch.equal(seen[hidden], clean[hidden]) or not hidden.any()


def test_objects_pass_from_frame_to_frame(make):
    (objects,) = passing.covering(make().frames, 0, (0.25,), True)
    for sequence in (0, 1):
        hidden = objects.occluder(torch.device("cpu"), *numbers(9, sequence)).covered.flatten(1)
        assert len(hidden.unique(dim=0)) > 3


@pytest.mark.parametrize("memory", [1.0, 0.0])
def test_heads_are_trained_on_covered_frames(make, memory):
    experiment = make(occlusion=0.5, confidence="given", memory=memory)
    *_, head = experiment.phases()
    first, second, _ = head.sampler(0)
    pairs = experiment.sampling.head_pairs(0)
    for features, frame in ((first, pairs.first), (second, pairs.second)):
        expected = experiment.method.encode(experiment.sampling.passing(pairs.sequence, frame))
        torch.testing.assert_close(features, expected)
        clean = experiment.method.encode(experiment.frames(pairs.sequence, frame))
        assert (features - clean).abs().max() > 1e-4


def test_heads_on_frames_see_objects_too(make):
    experiment = make("vit", occlusion=0.5)
    (head,) = experiment.phases()
    pairs = experiment.sampling.head_pairs(0)
    assert torch.equal(head.sampler(0)[1], experiment.sampling.passing(pairs.sequence, pairs.second))
    list(experiment.phases())
    result = experiment.evaluate()
    assert "ate_sim3_covered" in result.metrics and result.partial is None


def test_nothing_covered_is_the_evaluation_itself_and_is_not_done_twice(make, monkeypatch):
    experiment = make(occlusion=0.0, confidence="learned")
    list(experiment.phases())
    assert experiment.sampling.passing is None
    evaluate, seen = evaluation.evaluate, []
    monkeypatch.setattr(evaluation, "evaluate", lambda *a, **k: seen.append(k.get("see")) or evaluate(*a, **k))
    result = experiment.evaluate()
    assert all(objects.share.amin() > 0 for objects in seen if objects is not None)
    for key, name in (("ate_normalised", "ate"), ("rotation_error_deg", "rotation_error")):
        assert result.curves[f"{name}_by_covered_share"]["y"][0] == pytest.approx(result.metrics[f"{key}_skip{SKIP}"])
    none = evaluation.Evaluable({SKIP: []}, {})
    assert passing.by_covered_share(experiment.predictor, {}, [], none) == {}
