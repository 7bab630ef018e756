"""The Flask application: pages, API, figures, authorization."""
