"""Reports of a gate's artefact: Markdown, check runs, JUnit."""
