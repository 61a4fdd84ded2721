"""The store: the only truth of a federation, behind one contract (``hanse.store.contract``).

Adapters: ``hanse.store.memory`` (tests, simulation), ``hanse.store.sqlite`` (one embedded process).
Everybody codes against the contract and is handed an adapter; nobody but the harness that starts a
federation names one.
"""
