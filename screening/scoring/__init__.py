"""Score a night: counts, cases with reasons, patients, charts, and its memory."""
