"""What each operator means, in float64 PyTorch: slow, sure, and shared by tests and the correctness gate."""
