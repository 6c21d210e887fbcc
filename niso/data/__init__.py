"""Data sets and samplers of related observations."""
