"""One blueprint a module."""
