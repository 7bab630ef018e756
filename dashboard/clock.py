"""The pages' clock: whole minutes, so that an answer that states ages keeps its ETag until the next minute."""

from datetime import UTC, datetime


def now() -> datetime:
    """The beginning of this minute."""
    return datetime.now(UTC).replace(second=0, microsecond=0)
