"""Figures of a threshold and their uncertainty: rules, intervals, calibration."""
