"""Regressions that a person accepts, by a line in a commit message, a reply or a command: for one range of commits."""
