"""Run by Alembic: bring the database of a connection that is already in a transaction forward."""

from __future__ import annotations

from alembic import context

# The name leaves Alembic's usual table to the user's own program in a database that both share.
context.configure(
    connection=context.config.attributes["connection"], version_table="quant_alembic", transactional_ddl=True
)
with context.begin_transaction():
    context.run_migrations()
