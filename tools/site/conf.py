"""Sphinx's settings for the site; ``make site`` lays the pages beside this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tools.site.api import home_of

if TYPE_CHECKING:
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "ArianeMQ"
html_title = "ArianeMQ"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 6
myst_links_external_new_tab = False
# Logs and outputs are shown as they are, and are not whole JSON.
suppress_warnings = ["misc.highlighting_failure"]

autodoc_member_order = "bysource"
autoclass_content = "both"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True


def resolve(app: Sphinx, environment: BuildEnvironment, node: pending_xref, shown: Any) -> Any:
    """Lead a type of a signature to its public name in the reference.

    Classes are written in modules of their own, and signatures name those. Types of other
    distributions, and our own that are not public, have no page here: they are shown as they are.
    """
    if node.get("refdomain") != "py" or node.get("reftype") not in _TYPES:
        return None
    home = home_of(node["reftarget"])
    if home is None:
        return shown
    domain: Any = environment.domains.python_domain
    return domain.resolve_xref(environment, node["refdoc"], app.builder, "obj", home, node, shown)


_TYPES: Final = ("class", "obj", "exc", "data")
"""Roles that Sphinx gives to annotations; docstrings set names in plain type."""


def setup(app: Sphinx) -> None:
    """Hook in what this file defines."""
    app.connect("missing-reference", resolve)
