"""Whole federations of real processes under every fault that a machine room has: `make chaos MINUTES=N`."""
