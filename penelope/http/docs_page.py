"""`GET /docs`: the OpenAPI document as one page, made here: nothing is loaded from elsewhere.

Source: contract, section 1.
"""

import json
from typing import Any

from jinja2 import Environment, PackageLoader

_ENVIRONMENT = Environment(loader=PackageLoader("penelope.http"), autoescape=True, trim_blocks=True)


def render(document: dict[str, Any]) -> str:
    """The page, HTML."""
    operations = [
        {"path": path, "method": method, "tag": operation["tags"][0], **operation}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    tags = sorted({str(operation["tag"]) for operation in operations})
    grouped = {tag: [one for one in operations if one["tag"] == tag] for tag in tags}
    template = _ENVIRONMENT.get_template("docs.html")
    return template.render(info=document["info"], grouped=grouped, schemas=document["components"]["schemas"],
                           pretty=lambda value: json.dumps(value, indent=2))  # fmt: skip
