"""Starts whole federations, in one process or as many: what demo, tests, bench and simulator share."""
