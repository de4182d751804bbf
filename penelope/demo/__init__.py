"""The bundled stand-in site, and the demo that walks through both ways of a job."""
