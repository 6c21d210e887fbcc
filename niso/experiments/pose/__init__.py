"""Camera poses from video (paper §5.3)."""
