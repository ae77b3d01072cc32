"""What records torch.distributed: process groups, operations, waits."""
