"""How much of a change for the worse is sure: what regressions are ranked by."""

import math


def sure_loss(low: float, high: float, *, machine_share: float = 0.0) -> float:
    """The end of a change's 95 % interval that is nearest to none, in nats; none where the interval holds none.

    `low` and `high` are relative changes of one sign, above -1. Of it `machine_share`, between 0 and 1, was the
    machine's and is no loss. In nats, so that losses of several series add up and a doubling weighs as much as a half.
    """
    if low <= 0 <= high or min(low, high) <= -1:
        return 0.0
    nearest = min(abs(math.log1p(low)), abs(math.log1p(high)))
    return nearest * (1 - min(max(machine_share, 0.0), 1.0))
