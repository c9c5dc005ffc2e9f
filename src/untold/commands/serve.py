"""`untold serve` serves models over HTTP, with a live page."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from untold.commands.options import number_option
from untold.errors import UntoldError, shorten
from untold.interruption import say_if_stopped
from untold.progress_bar import task

if TYPE_CHECKING:
    from untold.serve.app import AccessRules


_HOME = frozenset({"127.0.0.1", "localhost", "::1"})
_HOME_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})  # as the Host header has them
_EVERYWHERE = frozenset({"0.0.0.0", "::"})
_KEY = "UNTOLD_API_KEY"
_SHORTEST_KEY = 16  # characters

Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="[[NAME=]MODEL]...", help="Models to serve [the embedded one]."),
]
Origins = Annotated[
    list[str] | None,
    typer.Option(metavar="ORIGIN", help="Let pages of this origin ask, such as https://a.org."),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Another name under which clients may ask, as in a proxy."),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=NUMBER", help="Change a limit, such as characters=5000."),
]
KeyFile = Annotated[
    Path | None, typer.Option(help=f"Clients must know the key in this file [{_KEY}].")
]


def serve(
    models: Models = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, number_option(0, 65_535, "The port; 0 takes a free one.")] = 8000,
    api_key_file: KeyFile = None,
    allow_origin: Origins = None,
    allow_host: Hosts = None,
    limit: Limits = None,
) -> None:
    """Serve models over HTTP: translations, explanations, checks, live streams and a page.

    SIGHUP loads the models again. SIGTERM ends the server when all requests are answered.
    """
    try:
        import fastapi
        import prometheus_client
        import uvicorn
    except ImportError as error:
        raise UntoldError(f"serving needs {error.name}: pip install 'untold[serve]'") from None
    del fastapi, prometheus_client, uvicorn
    from untold.serve.app import HttpServer, bind_socket, build_application
    from untold.serve.schemas import read_limits
    from untold.serve.service import Service, read_model_names

    rules = _rules(host, _read_key(api_key_file), allow_origin or [], allow_host or [])
    limits = read_limits(limit or [])
    say_if_stopped("the server had not begun")
    service = Service(read_model_names(models or []), limits)
    with bind_socket(host, port) as bound:
        with task("loading the models"):
            service.start()
        server = HttpServer(build_application(service, rules), service, bound)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{bound.getsockname()[1]}"
        code = server.serve_until_stopped(lambda: print(f"untold serves at {address}", flush=True))
    raise typer.Exit(code)


def _rules(host: str, key: str | None, origins: list[str], names: list[str]) -> "AccessRules":
    """Decides who may ask; only this machine may without a key."""
    from untold.serve.app import AccessRules

    if host not in _HOME and key is None:
        raise UntoldError(
            f"--host {shorten(host)} is open to other machines: give an API key with "
            f"--api-key-file or {_KEY}"
        )
    if "*" in origins:
        raise UntoldError("--allow-origin *: name each origin, as in https://a.org")
    hosts = frozenset(name.lower() for name in names)
    if host not in _EVERYWHERE:
        hosts |= {f"[{host}]" if ":" in host else host.lower()}
    if hosts:  # none means any; probes of this machine ask under its own names
        hosts |= _HOME_NAMES
    return AccessRules(hosts, frozenset(origins), key)


def _read_key(file: Path | None) -> str | None:
    key = os.environ.get(_KEY)
    if file is not None:
        try:
            key = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise UntoldError(f"{file}: cannot be read as a key: give a file of one line") from None
    if key is None:
        return None
    key = key.strip()
    if len(key) < _SHORTEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        place = file or _KEY
        raise UntoldError(
            f"{place}: a key has at least {_SHORTEST_KEY} signs of ASCII without blanks: make one "
            "with openssl rand -hex 32"
        )
    return key
