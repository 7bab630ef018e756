"""What the dashboard's programs are told from outside, read from the environment once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from warpwatch.dashboard.access_settings import AccessSettings

DEFAULT_THRESHOLD = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One program's settings. `from_env` reads them; tests and commands make their own."""

    database: str  # SQLAlchemy URL
    threshold: float = DEFAULT_THRESHOLD  # smallest relative change that matters
    upload_limit_mib: int = 128  # of one request
    access: AccessSettings = field(default_factory=AccessSettings)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, *, cwd: Path | None = None) -> "Settings":
        """WARPWATCH_DATABASE (a URL), WARPWATCH_THRESHOLD and WARPWATCH_UPLOAD_LIMIT_MIB.

        The database's default is .warpwatch/warpwatch.db under cwd. Raises ValueError if the threshold is no number
        between 0 and 1, or the limit no whole number from 1 on.
        """
        environ = os.environ if environ is None else environ
        default = f"sqlite:///{(cwd or Path.cwd()) / '.warpwatch' / 'warpwatch.db'}"
        threshold = environ.get("WARPWATCH_THRESHOLD", str(DEFAULT_THRESHOLD))
        try:
            value = float(threshold)
        except ValueError:
            value = -1.0
        if not 0 < value < 1:
            raise ValueError(f"WARPWATCH_THRESHOLD is {threshold!r}; wanted a share such as 0.02")
        limit = environ.get("WARPWATCH_UPLOAD_LIMIT_MIB", "128")
        if not limit.isdecimal() or int(limit) < 1:
            raise ValueError(f"WARPWATCH_UPLOAD_LIMIT_MIB is {limit!r}; wanted whole mebibytes such as 128")
        return cls(
            database=environ.get("WARPWATCH_DATABASE") or default,
            threshold=value,
            upload_limit_mib=int(limit),
            access=AccessSettings.from_env(environ),
        )
