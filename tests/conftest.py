"""How Hypothesis runs in every room."""

from hypothesis import HealthCheck, settings

# The same examples each time, so that a red run is a change of ours. No stopwatch, neither on an example nor on making
# one: machines are shared.
settings.register_profile("warpwatch", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("warpwatch")
