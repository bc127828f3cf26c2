"""Tables of patients: read by their contract, and encoded as numbers."""
