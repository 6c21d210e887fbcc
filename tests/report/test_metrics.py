"""Which metrics of a page are results."""

import pytest

from niso.report.metrics import beside


@pytest.mark.parametrize("key", ["steps", "seconds", "seconds_head", "seconds_own", "accuracy_val", "test_images"])
def test_costs_validation_and_sizes_are_no_results(key):
    assert beside(key)


@pytest.mark.parametrize("key", ["accuracy", "ate_skip3", "secondsown"])
def test_other_metrics_are_results(key):
    assert not beside(key)
