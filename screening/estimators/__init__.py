"""Estimators: kernel machines and baselines; each file of this folder may add some."""
