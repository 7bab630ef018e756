"""Why a file is left out whole."""


class BrokenFileError(Exception):
    """A file that cannot be understood; the message says what was seen."""


class BeyondLimitError(BrokenFileError):
    """A file that holds more than a limit allows; the message says what it has, the limit, and what to do."""
