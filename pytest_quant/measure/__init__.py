"""From a check to a measurement: build, evaluate, read back what ran, time, weigh."""
