"""The whole dashboard as files, for places that serve files alone, such as GitHub Pages."""
