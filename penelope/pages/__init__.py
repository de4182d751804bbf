"""Pages: who may work one, and the port to the browser that shows it."""
