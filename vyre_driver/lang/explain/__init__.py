"""What became of a kernel: its code, and why it is as it is; no device is needed."""
