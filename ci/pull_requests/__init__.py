"""Which commit of a pull request is measured, whether at all, and on whose word."""
