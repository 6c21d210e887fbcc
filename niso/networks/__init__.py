"""Networks: encoders and decoders between observations and latent functions (batch, points, channels), and heads."""

from niso.networks.adapter import on_grid
from niso.networks.classification import ClassificationObjective
from niso.networks.conv import ConvConfig, ConvDecoder, ConvEncoder
from niso.networks.eigenspace_head import EigenspaceHead, EigenspaceHeadConfig
from niso.networks.mlp import MLP, MLPConfig
from niso.networks.norm import ChannelNormSiLU, InstanceNormSiLU
from niso.networks.points import grid_to_points, points_to_grid
from niso.networks.spectral_head import SpectralHead, SpectralHeadConfig
from niso.networks.vector_neurons import VectorNeuronConfig, VectorNeuronHead
from niso.networks.vit import TransformerBlock, ViTConfig, ViTDecoder, ViTEncoder

__all__ = [
    "MLP",
    "ChannelNormSiLU",
    "ClassificationObjective",
    "ConvConfig",
    "ConvDecoder",
    "ConvEncoder",
    "EigenspaceHead",
    "EigenspaceHeadConfig",
    "InstanceNormSiLU",
    "MLPConfig",
    "SpectralHead",
    "SpectralHeadConfig",
    "TransformerBlock",
    "VectorNeuronConfig",
    "VectorNeuronHead",
    "ViTConfig",
    "ViTDecoder",
    "ViTEncoder",
    "grid_to_points",
    "on_grid",
    "points_to_grid",
]
