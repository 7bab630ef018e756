"""The dashboard's commands, one file each."""
