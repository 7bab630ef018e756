"""The sub-commands of `warpbench`, a module each."""
