"""Triton twins of the operators, one module each, under the same names and with the same signatures."""
