"""Closed triangle meshes, and their maps to the sphere."""
