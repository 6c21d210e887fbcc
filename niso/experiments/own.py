"""The user's own networks, which an experiment trains in place of niso's."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import nn

from niso.errors import InputError


class Own(NamedTuple):
    """The user's own encoder and decoder."""

    encoder: nn.Module
    decoder: nn.Module

    @classmethod
    def given(cls, encoder: Any, decoder: Any) -> Own | None:
        """The user's networks, if any.

        Raises:
            InputError: they are not two modules.
        """
        if (encoder is None) != (decoder is None):
            raise InputError("encoder and decoder go together: give both")
        for role, network in (("encoder", encoder), ("decoder", decoder)):
            if isinstance(network, type):
                raise InputError(f"{role} is the class {network.__name__}: give an instance, {network.__name__}(…)")
            if network is not None:
                check_module(role, network)
        return None if encoder is None else cls(encoder, decoder)


def check_module(name: str, network: Any) -> None:
    """InputError where this is no module, or one that was not made by torch's own `__init__`."""
    if not isinstance(network, nn.Module):
        raise InputError(f"{name} must be a torch.nn.Module, not {type(network).__name__}")
    if not hasattr(network, "_parameters"):
        raise InputError(f"{name} is no whole torch.nn.Module: call super().__init__() first in its __init__")
