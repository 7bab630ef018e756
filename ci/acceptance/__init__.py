"""Acceptances: regressions of a commit range that a person accepts in a commit message, a reply or a command."""
