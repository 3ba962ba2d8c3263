"""Exchange of runs between histories, and import of other benchmark tools' results."""
