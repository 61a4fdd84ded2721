"""Measurements. A module here is one bench; `bench.run` runs it and `bench.contract` says what one is."""
