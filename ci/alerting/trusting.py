"""How far each machine can be trusted, worked out anew only when it has new results: it reads all of its histories."""

from warpwatch.dashboard.judged_by import judged_by
from warpwatch.dashboard.settings import DEFAULT_THRESHOLD
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.machine_records import Machine
from warpwatch.dashboard.trust import Trust, trust


class TrustMemory:
    """What was worked out before in this process, by project and machine."""

    def __init__(self, threshold: float = DEFAULT_THRESHOLD) -> None:
        """`threshold` is the dashboard's, for projects that state none."""
        self._threshold = threshold
        self._known: dict[tuple[str, str], tuple[object, Trust | None]] = {}

    def of(self, store: Store, project: str, machine: Machine) -> Trust | None:
        """Of a machine as it stands; None of one without judged times."""
        judged = judged_by(store, project, threshold=self._threshold)
        place, state = (project, machine.name), (machine.runs, machine.newest_run, judged.threshold, judged.stated)
        if self._known.get(place, (None, None))[0] != state:
            history = queries.machine_history(store, project, machine.name)
            known = None
            if history is not None and history.series:
                known = trust(history, threshold=judged.threshold, limits=judged.limits)
            self._known[place] = (state, known)
        return self._known[place][1]
