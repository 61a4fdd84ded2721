"""The agent's pure core: inventory over node arrays, topology, all-or-nothing placement.

Nothing here waits, logs, or reads a clock, so the simulator and the tests replay every decision byte for byte.
"""
