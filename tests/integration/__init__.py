"""The plugin as a whole, and backends on their runtimes."""
