"""What crosses a room's door: frozen types of what the tool writes and reads back."""
