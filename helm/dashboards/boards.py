"""The five dashboards. What each metric means: docs/reference/metrics.md.

One table, and so one module: it is read from top to bottom beside Grafana, and holds no logic.
"""

from typing import Final

from helm.dashboards.panels import RATE, Board, Line, Panel, Row, Variable

POOL: Final = Variable("pool", "hanse_pool", "hanse_pool_nodes")
AGENT: Final = Variable("pool", "hanse_pool", "hanse_agent_attached")


def _quantile(q: float, name: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({q:g}, sum by ({labels}) (rate({name}_bucket[{RATE}])))"


FEDERATION: Final = Board(
    "hanse-federation",
    "Hanse / Federation",
    "The whole fleet: what there is, what is used, who waits, what goes wrong.",
    (
        Row(
            "At a glance",
            (
                Panel(
                    "Pools with fresh news",
                    "Pools whose newest summary is younger than 30 s.",
                    (Line("count(min by (hanse_pool) (hanse_pool_summary_age_seconds) < 30) or vector(0)", ""),),
                    glance=True,
                ),
                Panel(
                    "GPUs in use",
                    "Of those on usable nodes.",
                    (
                        Line(
                            'sum(max by (hanse_pool, hanse_flavor) (hanse_pool_gpus{hanse_gpu_state="used"})) / '
                            "sum(max by (hanse_pool, hanse_flavor, hanse_gpu_state) (hanse_pool_gpus))",
                            "",
                        ),
                    ),
                    "percentunit",
                    glance=True,
                ),
                Panel(
                    "Jobs that wait",
                    "Pending, of all queues.",
                    (Line("sum(hanse_pending_jobs)", ""),),
                    glance=True,
                ),
                Panel(
                    "Roots held",
                    "Queues, or cohorts of them, for which some replica admits.",
                    (Line("sum(hanse_roots_held)", ""),),
                    glance=True,
                ),
                Panel(
                    "Agents attached",
                    "By what replicas see.",
                    (Line("sum(hanse_link_sessions)", ""),),
                    glance=True,
                ),
                Panel(
                    "Outcomes not known",
                    "Transactions of which the store did not say whether they passed. More than none for minutes: "
                    "docs/operations/HanseOutcomesUnknown.md.",
                    (Line("sum(hanse_commit_settling)", ""),),
                    glance=True,
                ),
            ),
        ),
        Row(
            "Capacity",
            (
                Panel(
                    "GPUs by state",
                    "Of usable nodes, all pools.",
                    (
                        Line(
                            "sum by (hanse_gpu_state) (max by (hanse_pool, hanse_flavor, hanse_gpu_state) "
                            "(hanse_pool_gpus))",
                            "{{hanse_gpu_state}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Gangs by state",
                    "Held, started, stopping: as agents tell.",
                    (
                        Line(
                            "sum by (hanse_gang_state) (max by (hanse_pool, hanse_gang_state) (hanse_pool_gangs))",
                            "{{hanse_gang_state}}",
                        ),
                    ),
                    stacked=True,
                ),
            ),
        ),
        Row(
            "Jobs",
            (
                Panel(
                    "Moves of jobs",
                    "Jobs that came to a state, a second.",
                    (Line(f"sum by (hanse_state) (rate(hanse_job_moves_total[{RATE}]))", "{{hanse_state}}"),),
                    "ops",
                ),
                Panel(
                    "Time in each state",
                    "Half of the jobs that left a state were in it for less.",
                    (Line(_quantile(0.5, "hanse_job_state_duration_seconds", "hanse_state"), "{{hanse_state}}"),),
                    "s",
                ),
                Panel(
                    "Refusals by agents",
                    "Jobs that agents sent back, by reason. Each costs an attempt of binding, never a retry.",
                    (Line(f"sum by (hanse_reason) (rate(hanse_refusals_total[{RATE}]))", "{{hanse_reason}}"),),
                    "ops",
                    rare=True,
                ),
                Panel(
                    "Submissions",
                    "Jobs that were accepted and refused, a second.",
                    (
                        Line(
                            f"sum by (hanse_outcome) (rate(hanse_submitted_jobs_total[{RATE}]))", "{{hanse_outcome}}"
                        ),
                    ),
                    "ops",
                ),
            ),
        ),
    ),
)

POOLS: Final = Board(
    "hanse-pool",
    "Hanse / Pool",
    "One pool or some: nodes, GPUs by flavor, gangs, how fresh its news is.",
    (
        Row(
            "Nodes and GPUs",
            (
                Panel(
                    "Nodes",
                    "Usable, and unusable: not ready, cordoned, tainted, without their devices.",
                    (
                        Line(
                            'max by (hanse_pool, hanse_node_state) (hanse_pool_nodes{hanse_pool=~"$pool"})',
                            "{{hanse_pool}} {{hanse_node_state}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "GPUs by flavor",
                    "Free and used, of usable nodes.",
                    (
                        Line(
                            "max by (hanse_pool, hanse_flavor, hanse_gpu_state) "
                            '(hanse_pool_gpus{hanse_pool=~"$pool"})',
                            "{{hanse_pool}} {{hanse_flavor}} {{hanse_gpu_state}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Gangs",
                    "As the newest summary tells.",
                    (
                        Line(
                            'max by (hanse_pool, hanse_gang_state) (hanse_pool_gangs{hanse_pool=~"$pool"})',
                            "{{hanse_pool}} {{hanse_gang_state}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Age of the newest summary",
                    "At the replica that heard last. Beyond its limit (summary_age_max_s) a pool gets no work.",
                    (
                        Line(
                            'min by (hanse_pool) (hanse_pool_summary_age_seconds{hanse_pool=~"$pool"})',
                            "{{hanse_pool}}",
                        ),
                    ),
                    "s",
                ),
            ),
        ),
    ),
    (POOL,),
)

QUEUES: Final = Board(
    "hanse-queues",
    "Hanse / Queues and tenants",
    "What waits and why, how long jobs wait, and who asks for what.",
    (
        Row(
            "Waiting",
            (
                Panel("Jobs that wait", "Of all queues, by replica.", (Line("hanse_pending_jobs", "{{instance}}"),)),
                Panel(
                    "Kinds of request that wait, by reason",
                    "Jobs of one queue and one shape are one kind. `hanse explain JOB` says more.",
                    (
                        Line(
                            "sum by (hanse_reason) (hanse_pending_classes)",
                            "{{hanse_reason}}",
                        ),
                    ),
                    rare=True,
                ),
                Panel(
                    "Wait until bound",
                    "Time in PENDING.",
                    (
                        Line(
                            "histogram_quantile(0.5, sum by (le) "
                            f'(rate(hanse_job_state_duration_seconds_bucket{{hanse_state="PENDING"}}[{RATE}])))',
                            "half",
                        ),
                        Line(
                            "histogram_quantile(0.99, sum by (le) "
                            f'(rate(hanse_job_state_duration_seconds_bucket{{hanse_state="PENDING"}}[{RATE}])))',
                            "99 of 100",
                        ),
                    ),
                    "s",
                ),
                Panel(
                    "Changes by owners",
                    "Holds, releases, priorities, retries.",
                    (Line(f"sum by (hanse_change) (rate(hanse_job_changes_total[{RATE}]))", "{{hanse_change}}"),),
                    "ops",
                    rare=True,
                ),
            ),
        ),
        Row(
            "Usage",
            (
                Panel(
                    "GPUs in use by queue",
                    "GPU-seconds of attempts that ended, a second: long runs show when they end.",
                    (
                        Line(
                            f"sum by (hanse_queue) (rate(hanse_usage_gpu_duration_seconds_total[{RATE}]))",
                            "{{hanse_queue}}",
                        ),
                    ),
                ),
                Panel(
                    "GPUs in use by flavor and pool",
                    "The same.",
                    (
                        Line(
                            "sum by (hanse_flavor, hanse_pool) "
                            f"(rate(hanse_usage_gpu_duration_seconds_total[{RATE}]))",
                            "{{hanse_flavor}} in {{hanse_pool}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Calls",
            (
                Panel(
                    "Calls",
                    "By method, a second.",
                    (
                        Line(
                            f"sum by (rpc_method) (rate(rpc_server_call_duration_seconds_count[{RATE}]))",
                            "{{rpc_method}}",
                        ),
                    ),
                    "ops",
                ),
                Panel(
                    "Time of a submission",
                    "Until all of a batch is stored.",
                    (
                        Line(_quantile(0.5, "hanse_submit_duration_seconds"), "half"),
                        Line(_quantile(0.99, "hanse_submit_duration_seconds"), "99 of 100"),
                    ),
                    "s",
                ),
            ),
        ),
    ),
)

SCHEDULER: Final = Board(
    "hanse-scheduler",
    "Hanse / Scheduler internals",
    "Cycles, commits, conflicts, the store: where the time of a decision goes.",
    (
        Row(
            "Deciding",
            (
                Panel(
                    "Cycles",
                    "Time of a whole cycle, and of its plan.",
                    (
                        Line(_quantile(0.99, "hanse_cycle_duration_seconds"), "cycle, 99 of 100"),
                        Line(_quantile(0.99, "hanse_cycle_plan_duration_seconds"), "plan, 99 of 100"),
                    ),
                    "s",
                ),
                Panel(
                    "Decisions",
                    "Jobs that found places, a second, by replica.",
                    (Line(f"sum by (instance) (rate(hanse_cycle_decisions_total[{RATE}]))", "{{instance}}"),),
                    "ops",
                ),
                Panel(
                    "Transactions",
                    "Commits by outcome, a second.",
                    (
                        Line(
                            f"sum by (hanse_outcome) (rate(hanse_commit_transactions_total[{RATE}]))",
                            "{{hanse_outcome}}",
                        ),
                    ),
                    "ops",
                ),
                Panel(
                    "Conflicts by guard",
                    "Kinds of key that others had moved: a head is a pool that several replicas want.",
                    (Line(f"sum by (hanse_guard) (rate(hanse_commit_conflicts_total[{RATE}]))", "{{hanse_guard}}"),),
                    "ops",
                    rare=True,
                ),
                Panel(
                    "Roots",
                    "For how many queues, or cohorts, each replica admits.",
                    (Line("hanse_roots_held", "{{instance}}"),),
                    stacked=True,
                ),
                Panel(
                    "Reports that wait",
                    "What agents said and is not in effect yet.",
                    (Line("hanse_reports_waiting", "{{instance}}"),),
                ),
            ),
        ),
        Row(
            "Store",
            (
                Panel(
                    "Requests of the store",
                    "By outcome, a second.",
                    (
                        Line(
                            f"sum by (hanse_outcome) (rate(db_client_operation_duration_seconds_count[{RATE}]))",
                            "{{hanse_outcome}}",
                        ),
                    ),
                    "ops",
                ),
                Panel(
                    "Time of a request",
                    "99 of 100 are faster, by operation.",
                    (
                        Line(
                            _quantile(0.99, "db_client_operation_duration_seconds", "db_operation_name"),
                            "{{db_operation_name}}",
                        ),
                    ),
                    "s",
                ),
                Panel(
                    "Size of the store",
                    "The file of each member, what is in use of it, and the most that it may have.",
                    (
                        Line(
                            "max by (hanse_store_member, hanse_store_part) (hanse_store_size_bytes)",
                            "{{hanse_store_member}} {{hanse_store_part}}",
                        ),
                    ),
                    "bytes",
                ),
                Panel(
                    "Ended jobs",
                    "That the store keeps, and that leave for the archive a second.",
                    (
                        Line("max(hanse_retention_kept)", "kept"),
                        Line(f"sum(rate(hanse_archive_jobs_total[{RATE}]))", "archived"),
                    ),
                    rare=True,
                ),
            ),
        ),
    ),
)

AGENTS: Final = Board(
    "hanse-agents",
    "Hanse / Agents",
    "What agents do in their clusters: placing, writing, repairing.",
    (
        Row(
            "Placing",
            (
                Panel(
                    "Gangs placed and refused",
                    "By pool, a second.",
                    (
                        Line(
                            "sum by (hanse_pool, hanse_outcome) "
                            f'(rate(hanse_agent_placements_total{{hanse_pool=~"$pool"}}[{RATE}]))',
                            "{{hanse_pool}} {{hanse_outcome}}",
                        ),
                    ),
                    "ops",
                ),
                Panel(
                    "Time to place a gang",
                    "99 of 100 are faster.",
                    (
                        Line(
                            "histogram_quantile(0.99, sum by (le, hanse_pool) (rate("
                            f'hanse_agent_placement_duration_seconds_bucket{{hanse_pool=~"$pool"}}[{RATE}])))',
                            "{{hanse_pool}}",
                        ),
                    ),
                    "s",
                ),
                Panel(
                    "Gangs",
                    "In this agent's book.",
                    (
                        Line(
                            'max by (hanse_pool, hanse_gang_state) (hanse_agent_gangs{hanse_pool=~"$pool"})',
                            "{{hanse_pool}} {{hanse_gang_state}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Attached",
                    "1 while the agent has a replica.",
                    (Line('max by (hanse_pool) (hanse_agent_attached{hanse_pool=~"$pool"})', "{{hanse_pool}}"),),
                ),
            ),
        ),
        Row(
            "The cluster",
            (
                Panel(
                    "Time of a write",
                    "99 of 100 are faster, by outcome.",
                    (
                        Line(
                            "histogram_quantile(0.99, sum by (le, hanse_pool, hanse_outcome) (rate("
                            f'hanse_agent_cluster_write_duration_seconds_bucket{{hanse_pool=~"$pool"}}[{RATE}])))',
                            "{{hanse_pool}} {{hanse_outcome}}",
                        ),
                    ),
                    "s",
                ),
                Panel(
                    "Operations",
                    "On gangs, a second.",
                    (
                        Line(
                            "sum by (hanse_pool) "
                            f'(rate(hanse_agent_cluster_operations_total{{hanse_pool=~"$pool"}}[{RATE}]))',
                            "{{hanse_pool}}",
                        ),
                    ),
                    "ops",
                ),
                Panel(
                    "Watches lost and drift repaired",
                    "A watch that breaks costs a list; a list that differs from what was thought is repaired.",
                    (
                        Line(
                            "sum by (hanse_pool) "
                            f'(rate(hanse_agent_cluster_watches_lost_total{{hanse_pool=~"$pool"}}[{RATE}]))',
                            "{{hanse_pool}} lost",
                        ),
                        Line(
                            f'sum by (hanse_pool) (rate(hanse_agent_repairs_total{{hanse_pool=~"$pool"}}[{RATE}]))',
                            "{{hanse_pool}} repaired",
                        ),
                    ),
                    "ops",
                    rare=True,
                ),
                Panel(
                    "Summaries published",
                    "By pool, a second.",
                    (
                        Line(
                            f'sum by (hanse_pool) (rate(hanse_agent_summaries_total{{hanse_pool=~"$pool"}}[{RATE}]))',
                            "{{hanse_pool}}",
                        ),
                    ),
                    "ops",
                ),
            ),
        ),
    ),
    (AGENT,),
)

BOARDS: Final = (FEDERATION, POOLS, QUEUES, SCHEDULER, AGENTS)
