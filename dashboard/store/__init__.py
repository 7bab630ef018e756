"""The history: tables and migrations, the records that leave it, and the only SQL of the dashboard."""

from warpwatch.dashboard.store.store import Store, StoreError

__all__ = ["Store", "StoreError"]
