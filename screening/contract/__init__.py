"""What a table must look like, and in which words it is told that it does not."""
