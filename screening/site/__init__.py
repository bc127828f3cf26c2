"""All series of a site in one go: what is to be scored, side by side, one overview over them."""
