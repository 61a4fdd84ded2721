"""How a placement was proven to be the best: by the greedy choice's own certificate, or by what came after it."""

from collections import Counter
from dataclasses import dataclass, field

from bench.contract import JsonValue
from hanse.agent.core.inventory import Inventory
from hanse.model.request import GangRequest
from hanse.shape.ask import prepare
from hanse.shape.seat import views
from hanse.shape.solve import solve
from hanse.shape.take import Proof


@dataclass(slots=True)
class Proofs:
    """How often which proof was needed, over the requests that were looked at."""

    seen: Counter[str] = field(default_factory=Counter)

    def look(self, inventory: Inventory, request: GangRequest) -> Proof:
        """Solves the gang's one set again, in the tree where it went, and notes the proof."""
        (s,) = prepare(request, request.sets[0].flavors).sets
        seen = [v for v in views(inventory.shape(), s) if v.cap.fit >= s.count]
        if any(v.cap.peak[-1] >= s.count for v in seen):
            self.seen["one_host"] += 1
            return Proof.CERTIFICATE
        proof = max(solve(v.cap, s.count).proof for v in seen)
        self.seen[proof.name.lower()] += 1
        return proof

    def told(self) -> JsonValue:
        """For `raw`."""
        return dict(self.seen)

    @property
    def certified_pct(self) -> float:
        """Requests for more than one host that the certificate answered, in per cent."""
        hard = sum(n for name, n in self.seen.items() if name not in ("one_host", "certificate"))
        many = hard + self.seen["certificate"]
        return 100.0 * self.seen["certificate"] / many if many else 100.0
