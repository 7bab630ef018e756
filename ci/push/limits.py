"""The limits that go with the results, so that the dashboard judges by the project's own rules."""

from collections.abc import Callable
from pathlib import Path

from warpwatch.ci.policy.reading import PolicyError
from warpwatch.ci.policy.stating import limits_stated_in
from warpwatch.ci.push.upload import AwayError, RefusedError, SettingsError, TooLargeError, Upload


def state_limits(results: Path, upload: Upload, say: Callable[[str], None]) -> None:
    """Sends what the file above the results states. What is in the way is said: the results are in, and the next push
    states it again."""
    try:
        stated = limits_stated_in(results)
        if stated is not None:
            upload.state(stated)
    except (PolicyError, OSError, AwayError, RefusedError, SettingsError, TooLargeError) as error:
        say(f"warning: the dashboard is not told by which limits to judge: {error}")
