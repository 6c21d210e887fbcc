"""A small model, saved, and pictures for it."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model of pictures of 8×8 pixels, trained for three steps."""
    import niso

    images = np.random.default_rng(0).integers(256, size=(20, 3, 8, 8)).astype(np.uint8)
    few = {"steps": 3, "rank": 4, "batch_size": 4, "latent_channels": 4, "evaluation_pairs": 8, "progress": False}
    return niso.fit(images, transform="homography", **few).save(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="session")
def model_pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pictures of 8×8 pixels, two of them in a folder of their own."""
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "more").mkdir()
    for number, name in enumerate(("a.png", "more/b.png", "more/c.png")):
        pixels = np.random.default_rng(number).integers(256, size=(8, 8, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / name)
    return folder
