"""What programs ask of the dashboard over HTTP: JSON and CSV out, results in with a token, one OpenAPI 3.1 document.

A resource is a module with a blueprint, its schemas and views under `operation.operation`; `resources.py` lists them.
"""
