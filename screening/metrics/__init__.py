"""Figures of a threshold and how sure they are: rules, intervals, ranks, subgroups, calibrated chances."""
