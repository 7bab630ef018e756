"""The HTTP API: JSON and CSV, uploads with a token, an OpenAPI 3.1 document.

A resource is a module with a blueprint, schemas and views (`operation.operation`), and a line in RESOURCES.
"""

from . import (
    commits,
    comparison,
    limits,
    machines,
    openapi_document,
    projects,
    regressions,
    results,
    roofline,
    series,
)

# In the order of the OpenAPI document.
RESOURCES = (
    projects,
    series,
    commits,
    comparison,
    regressions,
    roofline,
    machines,
    limits,
    results,
    openapi_document,
)
