"""When what a run did happens: in start-up, in steps, in regions that the user named."""
