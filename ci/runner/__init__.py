"""A machine that measures: what is wrong with it, how it is set up, how far its numbers can be trusted."""
