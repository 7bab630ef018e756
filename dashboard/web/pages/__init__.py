"""The pages: one blueprint each. A view reads the URL, queries the store, and renders a template."""
