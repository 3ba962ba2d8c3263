"""The files of a first check in a repository: fixtures, a test, and the workflow of its CI, written for one model."""
