"""Where rows come from: files, tables in memory, databases and images, all as blocks of columns."""
