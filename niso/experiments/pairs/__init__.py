"""The user's own pairs: from DATA to a trained model, what it found, and whether to trust it."""
