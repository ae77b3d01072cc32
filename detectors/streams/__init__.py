"""What devices and their hosts did, as stretches of time: of every rank, by kind of work."""
