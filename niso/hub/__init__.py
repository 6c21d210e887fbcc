"""Trained models that others can use: those that come with niso, those of the Hugging Face Hub, and their cards."""

SCHEME = "hf://"
"""What an address on the Hugging Face Hub begins with: hf://owner/name, or hf://owner/name@revision."""
