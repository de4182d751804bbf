"""Penelope works web pages for you over HTTP. These three names are all that a plugin's author needs."""

from penelope.plugin import Call, PluginError, plugin

__all__ = ("Call", "PluginError", "plugin")
