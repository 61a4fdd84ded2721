"""Certificates: who shows which, how they are made, asked for, renewed and kept in files.

All that knows the `cryptography` library is in here; `hanse.kit.tls` speaks TLS and needs none of it.
"""
