"""Programs that measure what this room decides."""
