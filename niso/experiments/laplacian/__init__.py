"""Torus and sphere: a Laplacian's eigenspaces, discovered (paper §4.3)."""
