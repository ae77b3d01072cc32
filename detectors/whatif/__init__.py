"""What a fix would bring: the run replayed with some of its own time taken out."""
