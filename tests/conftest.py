"""Every test runs with the shapes and types of untold's signatures checked."""

from jaxtyping import install_import_hook

install_import_hook("untold", "beartype.beartype")
