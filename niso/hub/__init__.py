"""Trained models that others can use: those that come with niso, those of the Hugging Face Hub, and their cards."""
