"""Spherical harmonics, discovered (paper §4.3)."""
