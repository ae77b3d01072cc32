"""What ranks wait for on their devices: late kernels, gaps in which the host launched nothing, initial skew."""
