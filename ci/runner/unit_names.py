"""What a runner's units and secrets are called, and where they lie below the root."""

UNIT_FOLDER = "etc/systemd/system"
PUSH_TOKEN, GITHUB_TOKEN = "etc/warpwatch/push-token", "etc/warpwatch/github-token"
SECRETS = (PUSH_TOKEN, GITHUB_TOKEN)
CLOCKS, MEASURE, TIMER = "warpwatch-clocks.service", "warpwatch-measure.service", "warpwatch-measure.timer"
PUSH, REGISTRATION, ACTIONS = "warpwatch-push.service", "warpwatch-registration.service", "warpwatch-actions.service"
WATCHED_UNITS = (TIMER, PUSH, ACTIONS)  # those that somebody enables; the others come with them
