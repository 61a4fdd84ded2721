"""Slurm batch scripts: `#SBATCH` options become a native job whose pods run the script.

A node of Slurm is a pod here, and every pod runs the script: what `srun` would start on this node, the pod starts
itself (`prologue`). Options are read as Slurm reads them (`script`), and every one of them is accounted for in one
table (`options`): mapped, named as not acted on, or refused because the job would mean something else without it.

    script      text to options, each with its line                  (directives, prefixes, quoting)
    options     the table: which options there are, and what becomes of each
    values      times, sizes, counts, host lists, arrays
    component   the options of one component to a pod set
    prologue    what a pod does before the script: environment, output files, srun and scontrol
    conversion  components and arrays to jobs

Lines that begin with `#HANSE` take the options that Slurm has no word for: `--image`, `--queue`, `--block-level`,
`--switch-level`, `--upper-level`, `--gpu-resource`. To Slurm they are comments.
"""

from hanse.manifests.sbatch.conversion import convert_script, is_script

__all__ = ["convert_script", "is_script"]
