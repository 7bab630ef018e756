"""What stands where a number is missing: the status and its reason as people read them."""

from warpwatch.dashboard.store.records import Status


def no_number(status: Status, reason: str | None) -> str:
    """One line: "invalid: throttled", or "not measured: code unchanged since abc1234"."""
    if status is Status.UNCHANGED:
        return f"not measured: {reason or 'its code is that of a commit measured before'}"
    return f"{status.value}: {reason}" if reason else status.value
