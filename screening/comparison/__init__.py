"""What stands behind a comparison of methods: finished folds, figures, paired differences, ranks."""
