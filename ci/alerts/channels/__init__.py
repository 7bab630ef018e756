"""Alert channels, one file each; `delivery.py` picks one by the destination's address."""
