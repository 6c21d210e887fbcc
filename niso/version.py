"""The version of niso."""

__version__ = "0.1.0"
