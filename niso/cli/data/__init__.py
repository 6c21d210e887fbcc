"""`niso data`: make and prepare data sets."""
