"""The store over etcd: a thin layer of our own over ``grpc.aio``. Import ``EtcdStore`` and ``EtcdOptions`` from here;
the rest is its inside.

``store`` is the face, ``cluster`` chooses a member and tries again where that is safe, ``member`` is one endpoint
with its pulse, ``tokens`` the authentication, ``watches`` and ``watch`` the watches over one stream, ``codec`` the
messages (pure), ``faults`` what etcd's errors mean (pure), ``options`` the address and the limits.
"""

from hanse.store.etcd.options import EtcdOptions
from hanse.store.etcd.store import EtcdStore

__all__ = ["EtcdOptions", "EtcdStore"]
