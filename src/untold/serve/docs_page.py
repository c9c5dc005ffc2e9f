"""The page of the API at /docs: made from its OpenAPI document, without scripts."""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from untold.serve.api_errors import STATUSES

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>untold: API</title>
<link rel="icon" type="image/svg+xml" href="static/icon.svg">
<link rel="stylesheet" href="static/style.css">
<link rel="stylesheet" href="static/docs.css">
</head>
<body>
<header class="top"><a class="brand" href="./">untold</a></header>
<main>
"""
_TAIL = "</main>\n</body>\n</html>\n"


def docs_page(document: dict[str, Any]) -> str:
    """Draws an OpenAPI document as a page."""
    info = document["info"]
    title = f"<h1>API of {escape(info['title'])} {escape(info['version'])}</h1>\n"
    text = f'<p class="lead">{escape(info["description"])} Bodies are JSON in UTF-8.\n'
    link = 'For programs: <a href="openapi.json">openapi.json</a>.</p>\n'
    return "".join([_HEAD, title, text, link, *_routes(document), *_refusals(), _TAIL])


def _routes(document: dict[str, Any]) -> Iterator[str]:
    schemas = document.get("components", {}).get("schemas", {})
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            yield '<section class="card">\n'
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>\n"
            yield f"<p>{escape(route.get('summary', ''))}</p>\n"
            yield from _body(route.get("requestBody", {}), schemas)
            yield from _answer(route["responses"].get("200", {}))
            yield "</section>\n"


def _body(body: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    content = body.get("content", {}).get("application/json", {})
    schema = schemas.get(content.get("schema", {}).get("$ref", "").rpartition("/")[2], {})
    for example in [*schema.get("examples", ()), *filter(None, [content.get("example")])]:
        yield f"<h3>A request</h3>\n{_code(example)}"
    if fields := schema.get("properties"):
        yield "<table>\n<tr><th>field</th><th>meaning</th></tr>\n"
        for name, each in fields.items():
            needed = " (required)" if name in schema.get("required", ()) else ""
            meaning = escape(each.get("description") or each.get("title", ""))
            yield f"<tr><td><code>{escape(name)}</code>{needed}</td><td>{meaning}</td></tr>\n"
        yield "</table>\n"


def _answer(answer: dict[str, Any]) -> Iterator[str]:
    for content in answer.get("content", {}).values():
        if example := content.get("example"):
            yield f"<h3>An answer</h3>\n{_code(example)}"


def _code(example: Any) -> str:
    """Shows JSON, or text as it is."""
    is_text = isinstance(example, str)
    text = example.strip() if is_text else json.dumps(example, ensure_ascii=False)
    return f"<pre><code>{escape(text)}</code></pre>\n"


def _refusals() -> Iterator[str]:
    yield '<section class="card">\n<h2>Refusals</h2>\n'
    yield "<p>Every refusal says in one sentence what was wrong, and the cure.</p>\n"
    yield _code({"error": {"code": "beam_too_large", "message": "beam 99: at most 16 here; …"}})
    yield "<table>\n<tr><th>status</th><th>when</th></tr>\n"
    for status, why in STATUSES.items():
        yield f"<tr><td>{status}</td><td>{escape(why.replace('`', ''))}</td></tr>\n"
    yield "</table>\n</section>\n"
