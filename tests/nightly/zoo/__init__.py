"""Real models from packages of the registries that nothing else in this repository has seen."""
