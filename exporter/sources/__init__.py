"""What brokerwire reads: the kernel, /proc, clients' metrics. I/O and decoding, no decisions."""
