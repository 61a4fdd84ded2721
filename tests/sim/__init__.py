"""The deterministic simulator: whole federations on a virtual clock, under faults that a seed draws."""
