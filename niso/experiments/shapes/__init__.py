"""Conformal shape classification (paper §5.2)."""
