"""Time that confirmations may take on a GPU in a day (UTC)."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from ..gpus import visible_gpus
from ..host_lock import HostLockError, lock_folder, open_shared

_DAY_S = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBudget:
    """The seconds spent today, in a file next to the GPU's lock: jobs that start with an empty home share it.

    Whoever holds the lock writes it. A restart of the machine begins with the whole budget.
    """

    path: Path
    seconds: float  # of a day

    def remaining_s(self) -> float:
        """Seconds left today, negative if the last run took longer. Raises HostLockError."""
        return self.seconds - self._spent()

    def spend(self, seconds: float) -> None:
        """Records spent seconds. Raises HostLockError."""
        text = json.dumps({"day": _today(), "seconds": round(self._spent() + seconds, 1)}).encode()
        descriptor = self._open()
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text, 0)
        finally:
            os.close(descriptor)

    def _spent(self) -> float:
        """A file that another program damaged counts as a new day's."""
        descriptor = self._open()
        try:
            spent = json.loads(os.pread(descriptor, 4096, 0) or b"{}")
            return float(spent["seconds"]) if spent["day"] == _today() else 0.0
        except (ValueError, TypeError, KeyError, RecursionError):
            return 0.0
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        try:
            return open_shared(self.path)
        except OSError as error:
            raise HostLockError(f"cannot open {self.path}: {error.strerror}; see WARPWATCH_LOCK_FOLDER") from error


def day_budget(minutes: float) -> DayBudget:
    """The budget of the first visible GPU, or of a machine without one."""
    name = min(visible_gpus(), default="machine")
    return DayBudget(path=lock_folder() / f"warpwatch-{name}.confirmations", seconds=60 * minutes)


def _today() -> int:
    """Days since 1970."""
    return int(time.time() // _DAY_S)
