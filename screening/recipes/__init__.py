"""Recipes: published methods as data, and how they are built."""
