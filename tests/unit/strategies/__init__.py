"""The strategies for inputs, without a runtime."""
