"""`warpwatch push`: sends asv's results to a dashboard, with a queue on disk."""
