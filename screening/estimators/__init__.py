"""What is fitted to rows: kernel machines and baselines, to lie in this folder is enough."""
