"""Which process of a run is which rank, and which is a helper of one."""
