"""Numbers, labels, tables and Markdown as people read them."""
