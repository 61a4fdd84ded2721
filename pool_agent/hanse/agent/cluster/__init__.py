"""The cluster as the agent sees it: one port, and an adapter for each kind of cluster."""
