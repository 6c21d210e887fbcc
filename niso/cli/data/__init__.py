"""`niso data`: make data sets and prepare them for experiments."""
