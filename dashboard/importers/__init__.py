"""Readers of what others recorded. Each turns files into records once; the store's writer takes those."""
