"""Records as text for other tools: one converter in each file, each from records to the text of a file."""
