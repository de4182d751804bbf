"""What is kept: the database, the media files, the request log."""
