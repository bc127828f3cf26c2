"""Compare tonight's table with training: drift and changed units, by counts."""
