"""What programs ask of the dashboard over HTTP: JSON in and out, a token where something is added."""
