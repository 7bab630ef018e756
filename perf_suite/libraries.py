"""Libraries of others that some baselines call. No import of them here: what is missing is not available."""

import importlib.metadata


def library(distribution: str) -> str:
    """Name and version of an installed distribution, recorded as the backend of its measurements."""
    return f"{distribution} {importlib.metadata.version(distribution)}"
