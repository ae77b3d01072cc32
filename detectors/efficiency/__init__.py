"""How much of the time of all ranks is work, as the POP model divides it (``docs/efficiencies.md``)."""
