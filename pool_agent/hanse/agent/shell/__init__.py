"""The agent's shell: it moves bytes between a cluster, a replica and a bus, and asks the core what they mean."""
