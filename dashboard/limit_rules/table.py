"""What all tables of warpwatch.toml have in common, be they read from the file or from what was kept of it."""

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """A table: frozen, and without keys that nobody reads. A field's description says what was wanted instead."""

    # strict: "0.02" in quotes is no share, and true is not 1. TOML knows inf and nan, which are no amounts.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
