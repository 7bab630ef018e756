"""Alembic's entry: migrates the connection it is handed, inside that connection's transaction."""

from alembic import context

from warpwatch.dashboard.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
context.run_migrations()
