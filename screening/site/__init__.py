"""All series of a site: score what is due in parallel, and draw one overview."""
