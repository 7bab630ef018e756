"""The history taken elsewhere: files of every measurement, and a table for notebooks."""
