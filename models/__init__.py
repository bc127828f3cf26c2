"""Recipes of the methods, one TOML file each."""
