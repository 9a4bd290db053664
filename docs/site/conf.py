"""The settings of Sphinx; docs/site/build_site.py puts the pages together first."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from autodoc import connect  # noqa: E402 -- beside this file

from vyre_driver import __version__  # noqa: E402

project = "vyre_driver"
author = "the authors of vyre_driver"
project_copyright = "the authors of vyre_driver. Licence: Apache-2.0"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
language = "en"
# Annotations name classes as their modules do: of the two that are called Kernel, either may be the target.
suppress_warnings = ["ref.python"]
exclude_patterns = ["files/**"]

myst_heading_anchors = 6
myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]

autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
maximum_signature_line_length = 88
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_preprocess_types = False
default_role = "literal"

copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

pygments_style = "default"
html_theme = "pydata_sphinx_theme"
html_title = f"vyre_driver {__version__}"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "vyre_driver"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}
html_sidebars = {"index": [], "glossary": [], "project/changelog": []}


def setup(app):  # noqa: ANN001, ANN201, D103 -- Sphinx's hook
    connect(app)
