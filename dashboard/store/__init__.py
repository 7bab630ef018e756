"""The history: tables and migrations, the records that leave it, and the only SQL of the dashboard."""

from .engine import Store, StoreError, cached
