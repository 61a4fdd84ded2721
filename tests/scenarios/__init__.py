"""Stories that an operator can read: what happens to whole federations, told step by step, with golden output.

A story is a text file: a title, then paragraphs of commands, each followed by `----` and what they show. It runs on
the simulator's virtual clock with the production shells and cores, a memory store and simulated clusters, in calm
weather unless the story says otherwise. All invariants of `tests.sim` are checked at every step of every story, and a
story is told under several orders of callbacks: what it shows must be the same, so it shows what must be, not what
happened to be.

    pytest tests/scenarios                       # tell them all
    pytest tests/scenarios -k A04                # some of them
    pytest tests/scenarios --rewrite             # write the output anew, then look at the difference
    REWRITE_GOLDEN=1 pytest tests/scenarios      # the same

A story that does not come true yet says so below its title (`# not yet: WHY`), must fail until it does, and
is not written anew.

The language: one command a line, `verb word … key=value …`; `#` begins a remark. A command that begins with `&` goes
on beside the ones after it, until its paragraph ends.

Setting (before everything else)
    pool NAME hosts=4 | racks=2x4 | racks=4,2 | blocks=2x4x8 | blocks=4,2/3 | zones=2x2x4x8
         [gpus=8] [cpu=64] [memory=1Ti] [RESOURCE=N] [model=h100] [label.KEY=V] [taint=KEY[=V][:EFFECT]]
         [region=R] [cost=N] [absent]            # again with the same name: more hosts, of another kind
    flavor NAME [LABEL=V …]                      # without labels: hosts whose model is NAME
    queue NAME [cohort=C] [FLAVOR=GPUS] [FLAVOR=cpu:40,nvidia.com/gpu:8] [FLAVOR=unlimited]
    priority NAME VALUE [default]
    replicas N
    weather FIELD=VALUE …                        # a field of tests.sim.swarm; also later, as a step

People
    submit NAME [times=N] [queue=Q] [priority=P] [duration=60s] [retries=N] [pools=N] [on_lost=fail] [id=REQUEST]
           [apart] [insist] [atomic] [pods=4] [gpus=8] [RESOURCE=N] [flavors=a,b] [select.KEY=V] [tolerate=KEY[=V]]
           [required=L] [preferred=L] [slices=4xrack,2xhost] [exclusive] [run=30s] [exit=1] [min=N]
           [+ SET pods=… …]                      # more pod sets
    cancel GLOB · cordon POOL [WHY] · uncordon POOL · hold QUEUE · release QUEUE
    drain POOL [deadline=60s] [WHY] · leave POOL [deadline=60s] [force] [dead] · readmit POOL
    hold job=NAME · release job=NAME · hurry NAME PRIORITY · retry NAME [as=NAME] [id=REQUEST]
    quota QUEUE FLAVOR=64|none · reflavor FLAVOR [LABEL=V …]

Time and fate
    advance 5s · wait GLOB STATE [within=60s] [least=N] · wait-held POOL NAME
    fail POOL PATH [remove] · restore POOL PATH · mark POOL PATH [cordoned=yes] [ready=no] [healthy=no] [RESOURCE=N]
    foreign POOL PATH name=N [gpus=8] [life=20s] · unforeign POOL NAME [grace=20s]
    kill|start|pause agent POOL [oldest] [for=10s] · kill|start|pause replica r0 [for=10s]
    twin POOL · relevel POOL [LEVEL …]           # a second agent; an agent with other levels
    cut POOL [for=10s] · join POOL               # its link, and no new one meanwhile
    stall POOL [for=10s]                         # what is said to its agent arrives so late
    down store|bus [for=10s] · cut-store r0 for=10s · lose-leases
    lose-pods POOL NAME [pods=2] · lose-record POOL NAME

Showing
    jobs [GLOB] · count [GLOB] · job NAME · life NAME · explain NAME [nodes] · nodes NAME
    pools · queues · cluster POOL · pods POOL · hosts POOL
"""
