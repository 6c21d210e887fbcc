"""Operators over intrinsic descriptors of surfaces (not in the paper)."""
