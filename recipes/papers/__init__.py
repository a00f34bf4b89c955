"""What only the papers need: formats of their checkpoints and data, their splits and their measures."""
