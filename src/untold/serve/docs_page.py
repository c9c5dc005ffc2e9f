"""The page of the API at /docs: made from its OpenAPI document, without scripts."""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

__all__ = ["docs_page"]

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>untold: API</title>
<link rel="stylesheet" href="/static/style.css">
</head>
<body>
<main>
"""
_TAIL = "</main>\n</body>\n</html>\n"


def docs_page(document: dict[str, Any]) -> str:
    """Draws an OpenAPI document as a page."""
    title = f"<h1>{escape(document['info']['title'])} {escape(document['info']['version'])}</h1>\n"
    text = f"<p>{escape(document['info']['description'])}</p>\n"
    link = '<p>For programs: <a href="/openapi.json">openapi.json</a>.</p>\n'
    return "".join([_HEAD, title, text, link, *_routes(document), _TAIL])


def _routes(document: dict[str, Any]) -> Iterator[str]:
    schemas = document.get("components", {}).get("schemas", {})
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>\n"
            yield f"<p>{escape(route.get('summary', ''))}</p>\n"
            yield from _body(route.get("requestBody", {}), schemas)


def _body(body: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    content = body.get("content", {}).get("application/json", {})
    schema = schemas.get(content.get("schema", {}).get("$ref", "").rpartition("/")[2], {})
    for example in [*schema.get("examples", ()), *filter(None, [content.get("example")])]:
        yield f"<pre>{escape(json.dumps(example, ensure_ascii=False))}</pre>\n"
    if fields := schema.get("properties"):
        yield "<table>\n<tr><th>field</th><th>meaning</th></tr>\n"
        for name, each in fields.items():
            needed = " (required)" if name in schema.get("required", ()) else ""
            meaning = escape(each.get("description") or each.get("title", ""))
            yield f"<tr><td><code>{escape(name)}</code>{needed}</td><td>{meaning}</td></tr>\n"
        yield "</table>\n"
