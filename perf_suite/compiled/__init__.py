"""What the compiler made of a commit's kernels: read from its library and its twins for every GPU, without one."""
