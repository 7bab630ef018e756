"""The pages: one blueprint each. A view reads the URL, asks store/queries, and renders a template."""
