"""Job specs as people have them, to the model and back to the line they came from. Pure: text in, values out.

A manifest passes four rooms, each of which knows nothing of the next:

    reader      bounded YAML and JSON to trees, every node with its line                 (hostile text stops here)
    documents   the objects of a file, each with its kind and its own text
    kinds       one reader per kind: which fields shape the job, which are kept, which are named as unmapped
    drafts      several objects and claims become one job, contradictions stop here; `model.validate` decides last

What a conversion leaves out is never left out in silence: `notes` states the rule. Where a value came from is kept,
so that what is found out later (no such queue, no such level) is told in the user's own file and line.

    convert(text)         -> Converted       jobs, and what was not mapped
    read_resources(text)  -> (QueueSpec | Cohort | Flavor | PriorityClass, …)
    read_kueue(text)      -> ImportedConfig  the same objects, from Kueue's, and levels of topologies
    to_json(converted)    -> the JSON of `hanse convert FILE -o json`
    plain_documents(text)                    objects as written, for whoever hands them on
    plain(text), to_yaml(value)              for files and output of our own: nobody else knows PyYAML
"""

from hanse.manifests.conversion import convert
from hanse.manifests.converted import Converted, ImportedJob, Origin, Unmapped
from hanse.manifests.json_form import ConvertedJson, to_json
from hanse.manifests.kueue_config import ImportedConfig, ImportedLevels, read_kueue
from hanse.manifests.reader import MANIFEST_BYTES_MAX, plain, plain_documents
from hanse.manifests.resource_files import QueueSpec, ResourceSpec, read_resources
from hanse.manifests.yaml_text import to_yaml

__all__ = [
    "MANIFEST_BYTES_MAX",
    "Converted",
    "ConvertedJson",
    "ImportedConfig",
    "ImportedJob",
    "ImportedLevels",
    "Origin",
    "QueueSpec",
    "ResourceSpec",
    "Unmapped",
    "convert",
    "plain",
    "plain_documents",
    "read_kueue",
    "read_resources",
    "to_json",
    "to_yaml",
]
