"""Which commit brought a change: built and measured here, by a binary search that knows how noisy its answers are."""
