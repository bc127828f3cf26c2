"""One row a stay from events: the past and tonight by the same words."""
