"""Statistics applied to the store: detection, classification, comparison, trust."""
