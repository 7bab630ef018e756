"""Reports of a gate's artefact: Markdown and check runs."""
