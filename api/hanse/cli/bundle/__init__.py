"""What `hanse support-bundle` packs, and what it leaves out."""
