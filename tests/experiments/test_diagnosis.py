"""What the diagnosis says where there is nothing to learn, or nothing was measured."""

import math

import pytest

from niso.experiments.diagnosis import diagnose


@pytest.mark.parametrize("error", [0.0, 0.3])
def test_equal_views_are_a_finding_of_their_own(error):
    first, *others = diagnose({"identity_error": 0.0, "reconstruction_error": error, "reconstruction_error_train": 0.3})
    assert first.bad and "observations of a pair are equal" in str(first) and "identity_error 0 (" in str(first)
    assert not any("doing nothing" in finding.name for finding in others) and len(others) == 1


def test_pairs_that_are_known_by_heart_are_still_too_few():
    assert "too few pairs" in next(diagnose({"reconstruction_error": 0.3, "reconstruction_error_train": 0.0})).name


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_metrics_that_are_not_finite_are_one_finding(value):
    measured = {"latent_rank": value, "identity_error": value, "reconstruction_error": 0.1, "other": value}
    (finding,) = diagnose(measured)
    assert finding.bad and "metrics are not finite: latent_rank, identity_error, other → " in str(finding)
    found = list(diagnose({"relative_map_error_centred": value, "relative_map_error": 0.1}))
    assert [finding.bad for finding in found] == [True]
