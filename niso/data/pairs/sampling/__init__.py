"""How pairs are drawn from observations: recorded ones, frames of clips, or those that niso makes itself."""
