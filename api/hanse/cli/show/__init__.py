"""Drawings: messages of the public API in, lines of text out. Pure; the clock and the paper are arguments."""
