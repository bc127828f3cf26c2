"""Lesions as what is found: maps of scores smoothed and opened, and the FROC curve of their clusters."""
