"""Health checks of the data, one file each."""
