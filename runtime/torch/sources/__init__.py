"""What loading costs by source: the data sets of a mixture."""
