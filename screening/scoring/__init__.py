"""What one night adds up to: counts, cases with reasons, patients, pictures, and what it remembers."""
