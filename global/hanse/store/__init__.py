"""The store: the only truth of a federation, behind one contract (``hanse.store.contract``).

Adapters: ``hanse.store.memory`` (tests, simulation), ``hanse.store.sqlite`` (one embedded process),
``hanse.store.etcd`` (any number of processes). Everybody codes against the contract and is handed an
adapter, which ``hanse.store.opening`` opens from an address.
"""
