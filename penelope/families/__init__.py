"""The shipped plugins. They import the door only, like any outside author."""
