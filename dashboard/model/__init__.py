"""What a change of a series has to be to count: limits, and the rules that state them by series. One part a file."""
