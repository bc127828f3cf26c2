"""What one ward adds to screening."""
