"""The health of a machine: which backends can run here, what is missing, and the command that fixes it."""
