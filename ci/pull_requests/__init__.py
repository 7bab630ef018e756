"""Commands of workflows: which commit of a pull request is measured, and whether it is approved."""
