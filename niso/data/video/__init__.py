"""Video with and without camera poses."""
