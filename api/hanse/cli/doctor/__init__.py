"""What `hanse doctor` asks, and what it finds wrong."""
