"""What time it is on pages: by whole minutes, so that what a page says of the time holds until the next one begins."""

from datetime import UTC, datetime


def now() -> datetime:
    """The beginning of this minute."""
    return datetime.now(UTC).replace(second=0, microsecond=0)
