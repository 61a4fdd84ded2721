"""The services of `hanse.api.v1`: coroutines on messages over the store, and a thin gRPC layer in front of them."""
