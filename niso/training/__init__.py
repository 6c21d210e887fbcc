"""Training: the loop, its processes, checkpoints, the run's folder."""
