"""What people and programs see of a gate: from its artefact to text, one kind of text a file."""
