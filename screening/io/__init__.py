"""Sources of rows: files, tables in memory and databases, read block by block."""
