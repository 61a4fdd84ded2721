"""The global scheduler: decides which pool a job runs in, and never sees a node."""
