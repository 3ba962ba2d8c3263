"""Figures: printed, and asserted as ratios."""
