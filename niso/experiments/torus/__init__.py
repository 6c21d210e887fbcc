"""Fourier eigenspaces, discovered (paper §4.3)."""
