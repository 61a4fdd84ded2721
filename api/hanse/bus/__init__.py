"""The bus: pool summaries and hints, lossy by contract (``hanse.bus.contract``). Truth lives in the store
only."""
