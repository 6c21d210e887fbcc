"""Group actions and domains, exact and tested without any data set."""
