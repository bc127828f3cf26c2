"""A memory between the nights: runs, cases, verdicts, threshold changes, and a chained trail over all."""
