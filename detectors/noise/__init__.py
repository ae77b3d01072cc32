"""What is no cause: variation, shared cores, ranks whose part in the program is to wait or to be waited for."""
