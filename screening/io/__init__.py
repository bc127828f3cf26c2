"""Where rows come from: files, tables in memory and databases, all as blocks of columns."""
