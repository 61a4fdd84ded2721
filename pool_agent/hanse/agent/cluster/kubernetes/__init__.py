"""The agent's port to a real Kubernetes cluster; `cluster` is the adapter, everything else serves it."""
