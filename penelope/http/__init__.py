"""The HTTP front: routes, auth and the envelope. It owns no task."""
