"""Whether the cause that a failure names is right: faults that are planted, and sound engines that have none."""
