"""Pre-trained vision transformers as frozen features: DINOv2 and BEiT, as Hugging Face's transformers stores them.

A model is a folder: `config.json`, `preprocessor_config.json` and `model.safetensors`. Weights that are pickled are
never opened, and nothing is fetched unless that is asked for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from torch import Tensor, nn

from niso.errors import InputError

KINDS = {"dinov2": ("dinov2", "dinov2_with_registers"), "beit": ("beit",)}
"""Families of models, and what `model_type` of config.json may be in each."""

PROBLEMS = (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, SafetensorError)
"""What transformers, or a file that is no such thing, may raise."""
_BILINEAR = 2  # Pillow's number


class PretrainedFeatures(nn.Module):
    """Images to the tokens of a transformer's last layer, each normalised (BEiT's are not), without gradients.

    A whole image is resized to what the model was trained on, without the crop that classifiers make.

    Args:
        model: images (batch, 3, height, width) to an output with a `last_hidden_state`.
        preprocessing: content of `preprocessor_config.json`.

    Attributes:
        size: height and width in pixels that images are resized to.
        tokens, channels: of what is made of an image; tokens of the class and registers are among them.

    Raises:
        one of `PROBLEMS`: the preprocessing is no such thing, or does not fit the model.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, preprocessing: dict[str, Any]) -> None:
        super().__init__()
        self.model = model.float().requires_grad_(False).eval()
        for name, neutral in {"mean": [0.0], "std": [1.0]}.items():
            values = preprocessing[f"image_{name}"] if preprocessing.get("do_normalize", True) else neutral
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32)[:, None, None], persistent=False)
        self.factor = preprocessing.get("rescale_factor", 1 / 255) if preprocessing.get("do_rescale", True) else 1.0
        cropped = preprocessing.get("do_center_crop", False)
        self.size = _size(preprocessing["crop_size" if cropped else "size"])
        self.mode = "bilinear" if preprocessing.get("resample") == _BILINEAR else "bicubic"
        probe = self(torch.zeros(1, 3, *self.size))
        if not bool(probe.isfinite().all()):
            raise ValueError("its features are not finite")
        self.tokens, self.channels = probe.shape[1:]

    def train(self, mode: bool = True) -> PretrainedFeatures:
        return super().train(False)

    @torch.no_grad()
    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch token channel"]:
        """Tokens of images in [−1, 1], in float32."""
        images = (images.float() + 1) * 127.5
        if images.shape[-2:] != self.size:
            images = nn.functional.interpolate(images, self.size, mode=self.mode, antialias=True).clamp(0, 255)
        tokens = self.model(pixel_values=(self.factor * images - self.mean) / self.std).last_hidden_state.float()
        return nn.functional.layer_norm(tokens, tokens.shape[-1:])


def load_pretrained(source: str, kind: str, download: bool = False) -> PretrainedFeatures:
    """The model in a folder, or of a name on the Hugging Face hub.

    Args:
        kind: one of `KINDS`.
        download: fetch what is not in the hub's cache yet; otherwise nothing is fetched.

    Raises:
        InputError: transformers is not installed; there is no such model, it is another kind's, its weights are not
            safetensors, or a file is missing or damaged.
    """
    try:
        import transformers
    except ImportError as error:
        raise InputError("pre-trained features need transformers: pip install 'transformers>=4.45'") from error
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    where: dict[str, Any] = {"local_files_only": not download}
    try:
        found = transformers.AutoConfig.from_pretrained(source, **where).model_type
        if found not in KINDS[kind]:
            raise InputError(f"{source} is a model of type {found}, not {KINDS[kind][0]}: give another one")
        model, report = transformers.AutoModel.from_pretrained(
            source, use_safetensors=True, output_loading_info=True, **where
        )
        missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
        if missing:  # which transformers would leave at random numbers
            raise ValueError(f"its weights lack {len(missing)} of the model's tensors, e.g. {missing[0]}")
        file = transformers.utils.hub.cached_file(source, "preprocessor_config.json", **where)
        return PretrainedFeatures(model, json.loads(Path(str(file)).read_text(encoding="utf-8")))
    except PROBLEMS as error:
        raise InputError(_explained(error, source, kind, download)) from error


def _explained(error: Exception, source: str, kind: str, download: bool) -> str:
    files = "config.json, preprocessor_config.json and model.safetensors"
    problem = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, KeyError):
        problem = f"{problem} is missing"
    if Path(source).is_dir():
        return f"cannot load a {kind} model from {source} ({problem}): it must hold {files}, whole"
    if download:
        return f"cannot fetch a {kind} model {source} from the Hugging Face hub ({problem}): give a folder instead"
    return (
        f"{source} is no folder, and the Hugging Face hub's cache has no such {kind} model: give a folder with "
        f"{files}, or fetch it by --download"
    )


def _size(size: Any) -> tuple[int, int]:
    """Height and width, as the forms of `preprocessor_config.json` have them."""
    if isinstance(size, dict):
        edge = size.get("shortest_edge")
        size = (size["height"], size["width"]) if edge is None else (edge, edge)
    height, width = size if isinstance(size, tuple | list) else (size, size)
    return int(height), int(width)
