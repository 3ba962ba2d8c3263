"""Two commits on one machine: the tests of each are run with its own files, and their engines timed side by side."""
