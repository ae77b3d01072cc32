"""What a pipeline runs, in which order, and when it happens: schedules, engines, a simulator."""
