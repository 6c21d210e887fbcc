"""Saved models on the Hugging Face Hub."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from niso.errors import InputError, first_line
from niso.experiments.saved import CONFIG, MODEL
from niso.hub import SCHEME
from niso.hub.card import CARD


def download(address: str) -> Path:
    """The folder, in huggingface_hub's cache, that a model of the Hub is downloaded to where it is not there.

    Raises:
        InputError: the address is none, huggingface_hub is not installed, or the download failed.
    """
    name, _, revision = address.removeprefix(SCHEME).partition("@")
    _check_name(name, f"{address} is not hf://owner/name")
    hub = _library()
    try:
        return Path(hub.snapshot_download(name, revision=revision or None, allow_patterns=[CONFIG, MODEL, CARD]))
    except Exception as error:  # of the library, of its HTTP client, of the file system
        raise InputError(f"cannot download {address} ({first_line(error)}): check its name and the network") from error


def upload(folder: Path, name: str, private: bool) -> str:
    """Upload a saved model and its card; the address of its page.

    Raises:
        InputError: the name is not owner/name, huggingface_hub is not installed, or the upload failed.
    """
    _check_name(name, f"{name!r} is not owner/name")
    hub = _library()
    try:
        page = str(hub.create_repo(name, private=private, exist_ok=True))
        hub.upload_folder(repo_id=name, folder_path=folder, commit_message="A model of niso")
    except Exception as error:  # of the library, of its HTTP client, of the file system
        advice = "log in by `hf auth login`, and check the name and the network"
        raise InputError(f"cannot upload to {name} ({first_line(error)}): {advice}") from error
    return page


def _check_name(name: str, problem: str) -> None:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name, re.ASCII):
        raise InputError(f"{problem}: name a model on the Hugging Face Hub by its owner and its name")


def _library() -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError as error:
        raise InputError("the Hugging Face Hub needs a package: pip install 'huggingface-hub>=0.25'") from error
