"""Accepted baselines: the reviewed file, the way into it, and the choice of one."""
