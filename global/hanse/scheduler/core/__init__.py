"""Decisions in pure code: snapshot in, plan and explanations out. No clock, no I/O, no randomness of its own."""
