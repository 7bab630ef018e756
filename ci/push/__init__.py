"""`warpwatch push`: asv results to a dashboard, kept on disk until it has them."""
