"""`niso data prepare`: turn data sets into the form that experiments read."""
