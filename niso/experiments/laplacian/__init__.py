"""What torus and sphere share: a Laplacian's eigenspaces, discovered (paper §4.3)."""
