"""What `model.json` says of a trained model."""
