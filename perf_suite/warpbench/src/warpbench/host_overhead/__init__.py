"""Host overhead: the host's seconds for one call at each operator's smallest shape, by pytest-benchmark."""
