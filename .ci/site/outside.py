"""Links that leave docs/ for the project's other files: on the site, where these are not, their text and the path.

In the project they are links, so that they work where the files are read.
"""

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+)([\w.][\w./-]*)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """`[the chart](../helm/hanse)` of a page of docs/ becomes: the chart (`helm/hanse`)."""
    depth = page.file.src_uri.count("/") + 1
    return OUTSIDE.sub(lambda m: f"{m[1]} (`{m[3]}`)" if m[2].count("../") == depth else m[0], markdown)
