"""A published method as data: its text, its parts, and the blend."""
