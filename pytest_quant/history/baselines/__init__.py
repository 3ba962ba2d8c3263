"""Accepted baselines: the reviewed file, its entries from records, and the choice of one for a check."""
