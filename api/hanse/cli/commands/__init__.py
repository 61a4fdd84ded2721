"""The commands: what each takes, what it asks the server, and what it hands to `show`."""
