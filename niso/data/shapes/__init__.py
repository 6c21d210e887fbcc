"""Shapes: made, read, and prepared as functions on the sphere."""
