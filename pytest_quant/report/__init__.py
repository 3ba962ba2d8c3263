"""Records as text: pure rendering."""
