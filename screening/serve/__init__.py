"""A letterbox: published pages for readers, and their verdicts into the inbox."""
