"""The deterministic simulator: whole federations on a virtual clock, under faults that a seed draws.

    make sim SEEDS=100 [SEED=0]                       # run seeds; a violation ends with the command to see it again
    python -m tests.sim --seeds 1 --seed 17 --story   # everything that happens in one seed
    python -m tests.sim --mutant p6-stale-set         # put a deliberate bug in, and see it found

**What runs.** The production shells and cores: `hanse.scheduler.shell.replica.Replica`, the agent of
`hanse.agent.shell`, the services of `hanse.apiserver`, the engine of `hanse.simcluster`. `parts` is the one module
that knows how they are built. Only what is outside of a process is replaced, and each replacement keeps the contract
that it stands for and does everything else that the contract allows:

    loop      time, the order of callbacks, kill -9, SIGSTOP      store    delays, unknown and late outcomes, leases
    link      lag, one-way stalls, breaks, words of the dead      cluster  prefixes of writes, late ones, lost watches
    bus       loss, repetition, disorder, outages                 nemesis  nodes, foreign pods, processes, clocks
    people    users and operators, who repeat and give up         swarm    which of all this exists in a seed

**What is judged.** Every revision of the store and every operation of a cluster, at the moment it happens, by
checkers that decode the stored values and believe nothing that the product worked out: `store_checks` (S2, S3, S5,
S6, S8, P5, P9, P11, P12), `cluster_checks` (S1 to S4, P6, P7, P8, P13), `summary_checks` (S9, P10), `replay` (S10).
After healing: `liveness` (L1, L2, L4). A process that falls over, a task whose error nobody looks at, a deadlock and
a livelock are violations too.

**What keeps it honest.** `mutants` puts deliberate bugs into the running product, one per rule of the small print;
`test_mutants` demands that each is found. `reach` tells which lines of the shells no seed has run.

To add a fault: a field in `swarm`, and what it does where it belongs (an adapter, or a strike of `nemesis`). To add
an invariant: a method of a checker that calls `accuse`, and a bug in `mutants` that only it finds.
"""
