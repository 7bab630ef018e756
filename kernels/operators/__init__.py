"""One module per operator: the Python function, its documentation, and its fake implementation."""
