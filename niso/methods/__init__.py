"""What the paper compares with, as models for the same training loop."""

from niso.methods.autoencoder import Autoencoder, AutoencoderObjective
from niso.methods.block_diagonal import block_diagonal_loss, block_diagonalise, block_order
from niso.methods.fourier import FourierObjective, FourierOutput, NeuralFourierTransform
from niso.methods.orthogonal import OrthogonalAutoencoder, OrthogonalObjective, orthogonal_map, orthogonal_parts

__all__ = [
    "Autoencoder",
    "AutoencoderObjective",
    "FourierObjective",
    "FourierOutput",
    "NeuralFourierTransform",
    "OrthogonalAutoencoder",
    "OrthogonalObjective",
    "block_diagonal_loss",
    "block_diagonalise",
    "block_order",
    "orthogonal_map",
    "orthogonal_parts",
]
