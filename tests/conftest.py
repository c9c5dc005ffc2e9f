"""Every test runs with the shapes and types of untold's signatures checked.

What untold measures of this machine goes to a directory of the tests, not to the user's.
"""

import os
import tempfile

from jaxtyping import install_import_hook

_cache = tempfile.TemporaryDirectory(prefix="untold-tests-")  # lives as long as this module
os.environ["XDG_CACHE_HOME"] = _cache.name

install_import_hook("untold", "beartype.beartype")
