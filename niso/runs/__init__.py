"""Runs: trained, resumed and evaluated in folders, alone or several at a time, recorded and compared."""

from niso.training.run import Run as Run

__all__ = ["Run"]
