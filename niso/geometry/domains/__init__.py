"""Domains on which transformations act: their grids, harmonics, and Laplacians."""
