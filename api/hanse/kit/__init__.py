"""What every process needs and no part owns: clock, supervision, backoff, telemetry, settings."""
