"""Generated from the protos by proto/generate.py. Do not edit."""
