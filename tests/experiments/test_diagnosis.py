"""What the diagnosis says where there is nothing to learn, or nothing was measured."""

import math
import re
from dataclasses import asdict

import pytest

from niso.experiments import EXPERIMENTS
from niso.experiments.diagnosis import diagnose
from niso.methods import METHODS

PAIRS, GROUPS = (METHODS.find(name).reads for name in ("niso", "niso-group"))


@pytest.mark.parametrize("error", [0.0, 0.3])
def test_equal_views_are_a_finding_of_their_own(error):
    first, *others = diagnose(
        {"identity_error": 0.0, "reconstruction_error": error, "reconstruction_error_train": 0.3}, PAIRS, PAIRS
    )
    assert first.bad and "observations of a pair are equal" in str(first) and "identity_error 0 (" in str(first)
    assert not any("doing nothing" in finding.name for finding in others) and len(others) == (error > 0)


def test_pairs_that_are_known_by_heart_are_still_too_few():
    assert (
        "too few pairs"
        in next(diagnose({"reconstruction_error": 0.3, "reconstruction_error_train": 0.0}, PAIRS, PAIRS)).name
    )


COLLAPSED = {
    **{"relative_map_error_centred": 0.9, "invariants_common": 0.999, "latent_rank": 1.01, "latent_spread": 1e-5},
    **{"mask_mean": 0.99, "single_eigenvalues": 1.0, "reconstruction_error": 0.3, "identity_error": 0.3},
}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_no_remedy_is_the_method_in_use_and_every_option_is_there(name):
    reads = METHODS.find(name).reads
    said = " ".join(finding.remedy for finding in diagnose(COLLAPSED, reads, reads) if finding.bad)
    assert name not in re.findall(r"niso-[\w-]*", said)
    assert ("equivariance loss" in said) == ("equivariance" in reads)
    for flag in re.findall(r"--([\w-]+)", said):
        for experiment in ("homnist", "shapes", "pose"):
            values = asdict(EXPERIMENTS.find(experiment).presets["quick"])
            assert flag.replace("-", "_") in values | values["training"], (experiment, flag)


FOUND = {
    **{"eigenspace_energy": 0.999, "eigenspace_energy_worst": 0.99, "map_block_energy": 0.99, "blocks_found": 1.0},
    **{"map_block_energy_chance": 0.6, "relative_map_error": 0.01, "equivariance_error": 0.01},
}


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        ("eigenspace_energy", 0.76, "eigenfunctions are mixed over true eigenspaces"),
        ("eigenspace_energy_worst", 0.5, "some eigenfunctions are mixed"),
        ("map_block_energy", 0.9, "maps mix true eigenspaces"),
        ("blocks_found", 0.5, "eigenvalues do not form the blocks"),
    ],
)
def test_eigenspaces_that_were_not_found_are_said(metric, value, words):
    assert not any(finding.bad for finding in diagnose(FOUND, PAIRS, PAIRS))
    (bad,) = (finding for finding in diagnose(FOUND | {metric: value}, PAIRS, PAIRS) if finding.bad)
    assert words in bad.name and "--steps" in bad.remedy
    assert not any("relative_map_error" in finding.measure for finding in diagnose(FOUND, PAIRS, PAIRS))


def test_maps_of_others_are_compared_with_none():
    measured = {"relative_map_error_centred": 0.45, "identity_relative_map_error_centred": 0.3}
    assert "predict worse than no map" in next(diagnose(measured, PAIRS, PAIRS)).name
    measured["identity_relative_map_error_centred"] = 0.6
    assert not any(finding.bad for finding in diagnose(measured, PAIRS, PAIRS))


def test_invariants_by_which_a_head_recognises_digits_do_not_collapse():
    known = COLLAPSED | {"accuracy": 0.98, "accuracy_clean": 0.99}
    names = [finding.name for finding in diagnose(known, GROUPS, GROUPS)]
    assert not any("invariants" in name or "coefficients" in name or "shrink" in name for name in names)
    names = [finding.name for finding in diagnose(known | {"accuracy": 0.73}, GROUPS, GROUPS)]
    assert any("invariants collapse" in name for name in names)
    for under, told in ((0.97, True), (0.3, False)):  # of the user's own labels
        names = [
            finding.name for finding in diagnose(COLLAPSED | {"head": 0.98, "head_transformed": under}, GROUPS, GROUPS)
        ]
        assert any("invariants collapse" in name for name in names) is not told
    guessed = COLLAPSED | {"head": 0.5, "head_transformed": 0.5, "accuracy_chance": 0.5}
    assert any("invariants collapse" in finding.name for finding in diagnose(guessed, GROUPS, GROUPS))


def test_invariants_by_which_observations_are_found_do_not_collapse():
    found = {"retrieval_map": 0.4, "retrieval_map_chance": 0.02}
    names = [finding.name for finding in diagnose(COLLAPSED | found, PAIRS, PAIRS)]
    assert not any("invariants collapse" in name or "one direction" in name or "shrink" in name for name in names)
    for values in (found | {"retrieval_map": 0.2}, {"retrieval_map": 0.9, "retrieval_map_chance": 0.4}):
        names = [finding.name for finding in diagnose(COLLAPSED | values, PAIRS, PAIRS)]
        assert any("invariants collapse" in name for name in names)


def test_views_that_are_nearly_equal_are_no_failure_to_learn():
    measured = {"identity_error": 0.0008, "constant_error": 0.8, "reconstruction_error": 0.1}
    (bad,) = (finding for finding in diagnose(measured, PAIRS, PAIRS) if finding.bad)
    assert "nearly equal" in bad.name and "identity_error / constant_error 0.001 (not ≥ 0.01)" in bad.measure
    said = " ".join(map(str, diagnose(measured | {"identity_error": 0.009}, PAIRS, PAIRS)))
    assert "nearly equal" not in said and "no better than doing nothing" in said


@pytest.mark.parametrize(
    ("accuracies", "chance", "bad"),
    [
        ({"head": 0.975, "linear": 0.97, "knn": 0.97}, 0.975, True),
        ({"head": 0.97, "knn_latents": 0.99}, 0.975, False),
        ({"head": 1.0}, 1.0, None),  # one class
        ({"head_transformed": 0.3}, 0.1, None),
    ],
)
def test_accuracies_are_compared_with_the_most_frequent_label(accuracies, chance, bad):
    found = [f for f in diagnose(accuracies | {"accuracy_chance": chance}, (), ()) if "labels are recognised" in f.name]
    assert [finding.bad for finding in found] == ([] if bad is None else [bad])


def test_a_few_held_out_observations_are_said_to_be_few():
    (finding,) = diagnose({"held_out_observations": 2.0, "retrieval_map": 1.0, "retrieval_map_chance": 0.75}, (), ())
    assert finding.bad is None and "held_out_observations 2 (not ≥ 20), and too few that differ" in finding.measure
    (finding,) = diagnose({"held_out_observations": 19.0, "retrieval_map_chance": 0.19}, (), ())
    assert finding.measure == "held_out_observations 19 (not ≥ 20)"
    assert not list(diagnose({"held_out_observations": 20.0}, (), ()))
    copies = {"held_out_observations": 70.0, "retrieval_map": 1.0, "retrieval_map_chance": 1.0}  # of one observation
    (finding,) = diagnose(copies | {"invariants_common": 1.0, "latent_spread": 0.0}, (), ())
    assert finding.bad is None and "held_out_observations 70 (≥ 20), and too few that differ" in finding.measure


@pytest.mark.parametrize("pair", ["", "_second"])
def test_pairs_that_nothing_relates_are_told_from_those_of_a_map(pair):
    for share, bad in ((0.5, True), (0.95, False)):
        (finding,) = diagnose({f"pair_discrimination{pair}": share}, (), ())
        assert finding.bad is bad and ("of triplets" in finding.name) is bool(pair)


def test_groups_whose_maps_carry_content_have_a_remedy():
    (finding,) = diagnose({"relative_map_error_centred": 0.6}, GROUPS, GROUPS)
    assert finding.bad and "share one T" in finding.remedy and "--steps" in finding.remedy


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_metrics_that_are_not_finite_are_one_finding(value):
    measured = {"latent_rank": value, "identity_error": value, "reconstruction_error": 0.1, "other": value}
    (finding,) = diagnose(measured, PAIRS, PAIRS)
    assert finding.bad and "metrics are not finite: latent_rank, identity_error, other → " in str(finding)
    found = list(diagnose({"relative_map_error_centred": value, "relative_map_error": 0.1}, PAIRS, PAIRS))
    assert [finding.bad for finding in found] == [True]


@pytest.mark.parametrize("best", ["", "_latents", "_raw"])
def test_observations_are_found_by_whatever_finds_them_best(best):
    measured = {f"retrieval_map{by}": 0.9 if by == best else 0.06 for by in ("", "_latents", "_raw")}
    (finding,) = diagnose({**measured, "retrieval_map_chance": 0.05}, (), ())
    assert not finding.bad and "18" in finding.measure


@pytest.mark.parametrize("measured", [{"mask_mean": 0.9}, {"latent_rank": 1.5}])
def test_a_value_at_its_limit_is_within_it(measured):
    (finding,) = diagnose(measured, (), ())
    assert not finding.bad and "not" not in finding.measure
