"""What other systems are given of a night: the flagged rows in their own forms."""
