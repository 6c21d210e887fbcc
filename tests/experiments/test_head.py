"""The training of a head on frozen networks."""

import torch
from torch import nn

from niso.experiments.head import frozen_phase
from niso.methods.config import ClassifierConfig
from tests.methods.test_rounding import make, observations


def test_phases_of_frozen_networks_are_read_finely():
    x, method, head = observations(), make(share=1e-3), nn.Flatten()
    phase = frozen_phase(method, head, ClassifierConfig(), x, lambda _: (x, torch.zeros(len(x))), None)
    with torch.autocast("cpu", torch.bfloat16):
        scores = phase.objective.scores(x)
    torch.testing.assert_close(scores, make(share=1e-3, half=False).head_features(x).flatten(1))
