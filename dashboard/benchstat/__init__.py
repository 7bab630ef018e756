"""`warpwatch benchstat`: two result sets compared, straight from their files. Needs no store and writes none."""
