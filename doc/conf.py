"""Configuration of the documentation (Sphinx)."""

import sklearn_ebm

project = "sklearn_ebm"
author = "The sklearn_ebm developers"
copyright = "2026, The sklearn_ebm developers"
version = release = sklearn_ebm.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
default_role = "literal"

autosummary_generate = True
# Members are listed by _templates/class.rst.
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    # What is executed; and nothing else is taken into the gallery.
    "filename_pattern": r"[\\/]plot_",
    "ignore_pattern": r"(^|[\\/])(?!plot_)[^\\/]*\.py$",
    "download_all_examples": False,
    "show_memory": False,
    "abort_on_example_error": True,
}

html_theme = "alabaster"
html_theme_options = {
    "description": "Energy-based models as scikit-learn estimators",
    "fixed_sidebar": True,
    "page_width": "1060px",
}
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}
