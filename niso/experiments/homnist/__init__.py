"""Digits under homographies (paper §5.1)."""
