"""The pages that Sphinx builds from the guides and the docstrings."""
