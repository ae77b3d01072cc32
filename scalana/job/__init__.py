"""A recorded job: what it is started with, how it is supervised, and why it may have left no record."""
