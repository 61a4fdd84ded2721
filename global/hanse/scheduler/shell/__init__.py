"""The running half of the scheduler: follows the store, runs cycles, commits plans, serves agents' links."""
