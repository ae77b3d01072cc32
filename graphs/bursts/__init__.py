"""What ranks did between their calls: own work by activity, from samples and exact clocks."""
