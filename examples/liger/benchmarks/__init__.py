"""Liger-Kernel's operators against eager and torch.compile."""
