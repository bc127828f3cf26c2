"""Model directories: documents, arrays, signatures, publishing, checkpoints."""
