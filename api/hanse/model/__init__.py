"""The vocabulary that every part of Hanse shares: frozen values, exact arithmetic and one state machine.

Pure by contract: nothing below `hanse.model` reads a clock, a socket, a random source or the environment, so
every rule that lives here can be replayed byte for byte by the simulator and by a test.
"""
