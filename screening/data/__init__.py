"""Tables of patients: how they are read by their contract (stream), and become numbers
(encoder)."""
