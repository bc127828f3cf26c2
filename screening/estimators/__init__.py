"""What is fitted to rows: kernel machines and baselines, each found by being in this folder."""
