"""What methods make of held-out observations, once they are trained."""
