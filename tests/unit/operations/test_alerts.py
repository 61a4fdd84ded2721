"""Every alert fires in the fault that it is for and is silent otherwise; it asks for metrics that there are, and has
a page that says what to do."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.operations.catalogue import check_asked

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "helm" / "hanse" / "files" / "alerts.yaml"
ALERTS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
HOUR = "60"
POOL = 'hanse_pool="oslo", instance="r0"'
ATTACHED = f"hanse_agent_attached{{{POOL}}}"
CONFLICT, COMMITTED = (
    f'hanse_commit_transactions_total{{hanse_outcome="{one}"}}' for one in ("conflict", "committed")
)
USABLE, UNUSABLE = (f'hanse_pool_nodes{{{POOL}, hanse_node_state="{one}"}}' for one in ("usable", "unusable"))
FILE, QUOTA = (
    f'hanse_store_size_bytes{{hanse_store_member="m0", hanse_store_part="{one}"}}' for one in ("file", "quota")
)
DOUBT = f'hanse_agent_cluster_write_duration_seconds_count{{{POOL}, hanse_outcome="in_doubt"}}'
AWAY, DONE = (
    f'db_client_operation_duration_seconds_count{{hanse_outcome="{one}"}}' for one in ("unavailable", "done")
)
LEFT = 'hanse_certificate_left_seconds{hanse_certificate_whose="own", instance="r0"}'
LIFETIME = 'hanse_certificate_lifetime_seconds{hanse_certificate_whose="own", instance="r0"}'
AUTHORITY_LEFT = 'hanse_certificate_left_seconds{hanse_certificate_whose="authority", instance="r0"}'
TWICE = 'hanse_link_refusals_total{hanse_refusal="ALREADY_ATTACHED"}'
WELL = {
    "hanse_roots_held": f"4x{HOUR}",
    f"hanse_pool_summary_age_seconds{{{POOL}}}": f"5x{HOUR}",
    ATTACHED: f"1x{HOUR}",
    'hanse_link_fenced_total{hanse_fence="attach"}': f"3x{HOUR}",
    TWICE: f"0x30 8x{HOUR}",
    USABLE: f"95x{HOUR}",
    UNUSABLE: f"5x{HOUR}",
    CONFLICT: f"0+10x{HOUR}",
    COMMITTED: f"0+600x{HOUR}",
    'hanse_refusals_total{hanse_reason="SHAPE"}': f"0+10x{HOUR}",
    "hanse_cycle_decisions_total": f"0+600x{HOUR}",
    "hanse_commit_settling": f"0x{HOUR}",
    FILE: f"100x{HOUR}",
    QUOTA: f"1000x{HOUR}",
    "hanse_archive_failures_total": f"2x{HOUR}",
    "hanse_access_files_unusable": f"0x{HOUR}",
    "hanse_audit_failures_total": f"3x{HOUR}",
    "hanse_audit_lost_total": f"0x{HOUR}",
    DOUBT: f"1x{HOUR}",
    AWAY: f"0+10x{HOUR}",
    DONE: f"0+600x{HOUR}",
    LEFT: f"80000-60x{HOUR}",
    LIFETIME: f"86400x{HOUR}",
    AUTHORITY_LEFT: f"315360000-60x{HOUR}",
    'hanse_link_forgeries_total{hanse_forgery="token"}': f"3x{HOUR}",
}
"""An hour of a federation that is well, a sample a minute."""

FAULTS: dict[str, dict[str, str | None]] = {
    "HanseNoReplica": {"hanse_roots_held": None},
    "HanseNothingHeld": {"hanse_roots_held": f"0x{HOUR}"},
    "HansePoolStale": {f"hanse_pool_summary_age_seconds{{{POOL}}}": f"5x10 0+60x{HOUR}"},
    "HanseAgentDetached": {ATTACHED: f"1x10 0x{HOUR}"},
    "HanseAgentTwice": {TWICE: f"0+15x{HOUR}"},
    "HanseNodesUnusable": {UNUSABLE: f"30x{HOUR}"},
    "HanseConflicts": {CONFLICT: f"0+400x{HOUR}"},
    "HanseRefusals": {'hanse_refusals_total{hanse_reason="SHAPE"}': f"0+100x{HOUR}"},
    "HanseOutcomesUnknown": {"hanse_commit_settling": f"0x10 2x{HOUR}"},
    "HansePlanningFails": {"hanse_cycle_failures_total": f"_x50 1x{HOUR}"},
    "HanseStoreNearlyFull": {FILE: f"900x{HOUR}"},
    "HanseStoreAway": {AWAY: f"0+2x{HOUR}", DONE: f"9000x{HOUR}"},
    "HanseArchiveFails": {"hanse_archive_failures_total": f"0+1x{HOUR}"},
    "HanseAccessFileUnusable": {"hanse_access_files_unusable": f"0x10 1x{HOUR}"},
    "HanseAuditFails": {"hanse_audit_lost_total": f"0x20 0+1x{HOUR}"},
    "HanseClusterInDoubt": {DOUBT: f"0+2x{HOUR}"},
    "HanseCertificateExpires": {LEFT: f"20000-120x{HOUR}"},
    "HanseForgeries": {'hanse_link_forgeries_total{hanse_forgery="token"}': f"0+2x{HOUR}"},
}


def test_every_alert_is_tried() -> None:
    assert [rule["alert"] for rule in ALERTS] == list(FAULTS)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_there_is_and_has_a_page(rule: dict[str, Any]) -> None:
    check_asked(rule["expr"])
    page = ROOT / rule["annotations"]["runbook"]
    assert page.name == f"{rule['alert']}.md"
    assert page.read_text().startswith(f"# {rule['alert']}\n")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus")
def test_each_alert_fires_in_its_fault_and_no_other_does(tmp_path: Path) -> None:
    cases = [_case("well", {}, [])]
    cases += [_case(name, changed, [name]) for name, changed in FAULTS.items()]
    file = tmp_path / "alerts_test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": cases}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _case(name: str, changed: dict[str, str | None], firing: list[str]) -> dict[str, Any]:
    """A test of promtool: at the end of the hour just these fire. What they say of themselves is not compared."""
    series = {**WELL, **changed}
    fired = [f'{{__name__="ALERTS", alertname="{alert}", alertstate="firing"}}' for alert in firing]
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items() if values is not None],
        "promql_expr_test": [
            {
                "expr": 'count by (__name__, alertname, alertstate) (ALERTS{alertstate="firing"})',
                "eval_time": "60m",
                "exp_samples": [{"labels": labels, "value": 1} for labels in fired],
            }
        ],
    }
