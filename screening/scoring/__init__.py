"""Score a night: counts, cases with reasons, patients, pictures and erasing."""
