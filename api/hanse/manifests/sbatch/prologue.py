"""What a pod does before the script: the environment that a Slurm job expects, its output files, `srun`, `scontrol`.

Plain `sh`, without anything that an image may lack beyond it and the usual small tools. Every pod runs the script, so
`srun` starts the tasks of this node and no others; a step for one node runs on the first one, or on the one that it
names. `scontrol show hostnames` writes out the list of nodes, which is how scripts find their master.
"""

from typing import Final

PROLOGUE: Final = r"""set -eu
rank=$(( ${RANK:-0} - ${HANSE_FIRST_RANK:-0} ))
nodes=${SLURM_NNODES:-${WORLD_SIZE:-1}}
master=${MASTER_ADDR:-localhost}
host=${HANSE_SET_HOST:-${HANSE_POD_SET}}
domain=
case "$master" in *.*) domain=".${master#*.}";; esac
list=
i=0
while [ "$i" -lt "$nodes" ]; do
  list="$list${list:+,}$host-$i$domain"
  i=$((i + 1))
done
[ "$nodes" -gt 1 ] || list=$(uname -n)
tasks=${SLURM_NTASKS_PER_NODE:-1}
export SLURM_JOB_ID="${SLURM_JOB_ID:-${HANSE_JOB:-0}}" SLURM_NNODES="$nodes" SLURM_JOB_NUM_NODES="$nodes"
export SLURM_JOBID="$SLURM_JOB_ID" SLURM_NODEID="$rank" SLURM_PROCID="$((rank * tasks))" SLURM_LOCALID=0
export SLURM_JOB_NODELIST="$list" SLURM_NODELIST="$list" SLURM_CLUSTER_NAME=hanse
export SLURM_NTASKS="${SLURM_NTASKS:-$((nodes * tasks))}" SLURM_TASKS_PER_NODE="$tasks(x$nodes)"
export SLURM_NPROCS="$SLURM_NTASKS" SLURMD_NODENAME="$host-$rank$domain"
if [ -z "${SLURM_CPUS_ON_NODE:-}" ]; then
  SLURM_CPUS_ON_NODE=$(nproc 2>/dev/null || echo 1)
  export SLURM_CPUS_ON_NODE SLURM_JOB_CPUS_PER_NODE="$SLURM_CPUS_ON_NODE(x$nodes)"
fi
export SLURM_LAUNCH_NODE_IPADDR="$master" SLURM_SUBMIT_HOST="${SLURM_SUBMIT_HOST:-hanse}"
[ "$nodes" -gt 1 ] || export SLURMD_NODENAME="$list"
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then export SLURM_ARRAY_JOB_ID="$SLURM_JOB_ID"; fi
bin=$(mktemp -d)
printf '%s' "$HANSE_SCRIPT" > "$bin/script"
cat > "$bin/srun" <<'SRUN'
#!/bin/sh
tasks=${SLURM_NTASKS_PER_NODE:-1}
nodes=
host=
while [ $# -gt 0 ]; do
  word=$1
  case "$word" in
    --) shift; break;;
    --nodes=*|--ntasks=*|--ntasks-per-node=*|--nodelist=*) name=${word%%=*}; value=${word#*=}; shift;;
    --nodes|--ntasks|--ntasks-per-node|--nodelist|-N|-n|-w) name=$word; value=${2:-}; shift; shift;;
    -N*|-n*|-w*) name=$(printf %.2s "$word"); value=${word#??}; shift;;
    --*=*) shift; continue;;
    --cpus-per-task|--job-name|--output|--error|--input|--chdir|--partition|--account|--time|--exclude|--gpus|\
    --distribution|--gpus-per-task|--gpus-per-node|--gres|--mem|--mem-per-cpu|--cpu-bind|--gpu-bind|--mpi|--export|\
    --container-image|--container-mounts|--container-workdir|--jobid|--unbuffered-output|--network|\
    -c|-J|-o|-e|-i|-D|-p|-A|-t|-x|-m|-G) shift; shift; continue;;
    -*) shift; continue;;
    *) break;;
  esac
  case "$name" in
    -N|--nodes) nodes=$value;;
    -w|--nodelist) host=$value;;
    --ntasks-per-node) tasks=$value;;
    *) all=$value;;
  esac
done
if [ "${nodes:-}" = 1 ]; then
  tasks=${all:-1}
  if [ -n "$host" ] && [ "$host" != "$SLURMD_NODENAME" ]; then
    if [ "${1:-}" = hostname ]; then
      case "${2:-}" in
        -i|-I|--ip-address|--all-ip-addresses) getent hosts "$host" | cut -d' ' -f1; exit;;
        *) echo "$host"; exit;;
      esac
    fi
    exit 0
  fi
  [ -n "$host" ] || [ "$SLURM_NODEID" = 0 ] || exit 0
elif [ -n "${all:-}" ]; then
  tasks=$(( (all + SLURM_NNODES - 1) / SLURM_NNODES ))
fi
[ $# -gt 0 ] || { echo "srun: no command" >&2; exit 1; }
if [ "$tasks" -le 1 ]; then
  exec "$@"
fi
pids=
i=0
while [ "$i" -lt "$tasks" ]; do
  SLURM_LOCALID=$i SLURM_PROCID=$((SLURM_NODEID * tasks + i)) "$@" &
  pids="$pids $!"
  i=$((i + 1))
done
trap 'kill $pids 2>/dev/null' TERM INT
code=0
for pid in $pids; do
  wait "$pid" || code=$?
done
exit "$code"
SRUN
cat > "$bin/scontrol" <<'SCONTROL'
#!/bin/sh
if [ "${1:-} ${2:-}" = "show hostnames" ] || [ "${1:-} ${2:-}" = "show hostname" ]; then
  printf '%s\n' "${3:-$SLURM_JOB_NODELIST}" | tr ',' '\n'
  exit
fi
echo "scontrol: only 'show hostnames' is answered here" >&2
exit 1
SCONTROL
chmod +x "$bin/srun" "$bin/scontrol" "$bin/script"
export PATH="$bin:$PATH"
named() {
  printf '%s' "$1" | sed -e "s|%[0-9]*j|$SLURM_JOB_ID|g" -e "s|%[0-9]*J|$SLURM_JOB_ID|g" \
    -e "s|%[0-9]*N|$SLURMD_NODENAME|g" -e "s|%[0-9]*n|$rank|g" -e "s|%[0-9]*t|$SLURM_PROCID|g" \
    -e "s|%[0-9]*s|batch|g" -e "s|%u|$(id -un 2>/dev/null || id -u)|g" -e "s|%%|%|g"
}
if [ -n "${HANSE_CHDIR:-}" ]; then cd "$HANSE_CHDIR"; fi
export SLURM_SUBMIT_DIR="${SLURM_SUBMIT_DIR:-$PWD}"
if [ -n "${HANSE_STDIN:-}" ]; then exec < "$(named "$HANSE_STDIN")"; fi
opened() {
  file=$(named "$1")
  mkdir -p "$(dirname "$file")"
  if [ "${HANSE_TRUNCATE:-}" = 1 ] && [ "$rank" = 0 ]; then : > "$file"; fi
}
if [ -n "${HANSE_STDOUT:-}" ]; then
  opened "$HANSE_STDOUT"
  echo "output goes to $file"
  if [ -n "${HANSE_STDERR:-}" ]; then exec >> "$file"; else exec >> "$file" 2>&1; fi
fi
if [ -n "${HANSE_STDERR:-}" ]; then opened "$HANSE_STDERR"; exec 2>> "$file"; fi
exec "$bin/script" "$@"
"""
