"""Search for remedies of a broken limit: only what was tried and helped is advised."""
