"""Is tonight's table of the kind the model was trained on? Drift and changed units, by counts of training."""
