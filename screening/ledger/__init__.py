"""A memory between nights: runs, cases, verdicts, thresholds, and a chained trail."""
