"""The HTTP API: JSON and CSV, uploads with a token, an OpenAPI 3.1 document.

A resource is a module with a blueprint, schemas and views (`operation.operation`); `resources.py` lists them.
"""
