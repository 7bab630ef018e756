"""One operator at any shape, asked for from the shell or from Python: the request, its result, table and files."""
