"""What the threads of a process of this host are in, read from outside: its memory, and what the kernel says of it."""
