"""The simulated cluster: nodes, pods and time that behave like a real cluster's, without the machines."""
