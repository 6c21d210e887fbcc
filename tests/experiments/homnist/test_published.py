"""Published figures belong to methods and metrics that exist, and are told apart from ours."""

import re

from niso.experiments.homnist.experiment import Homnist
from niso.runs.comparison import known


def test_published_figures_are_of_known_methods_and_metrics():
    methods = [entry.method for entry in Homnist.published if entry.method]
    assert set(methods) <= set(Homnist.methods) - {"niso-group"}  # which is not in the paper
    assert len(methods) == len(set(methods))
    for entry in Homnist.published:
        assert entry.source and entry.figures.keys() <= Homnist.metric_descriptions.keys()
        for figure in entry.figures.values():
            assert re.fullmatch(r"0\.\d+( ± 0\.\d+)?", figure)  # shares, as ours


def test_what_is_known_of_an_experiment():
    assert known("homnist").beside("niso-triplet")["accuracy"] == "0.9738 ± 0.0023"
    assert known("homnist").beside("niso-group") == {}
    assert known("of another version").published == ()
