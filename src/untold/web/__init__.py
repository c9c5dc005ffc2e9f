"""The web pages: hand-written modules, styles and templates, served as files or inlined into one.

A browser gets the files as they are here. `untold explain`, `untold check` and the server share
them.
"""

from untold.web.pages import ASSETS, asset, inline_page

__all__ = ["ASSETS", "asset", "inline_page"]
