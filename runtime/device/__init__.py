"""Record when a device did what the program launched: events of the device around modules, actions and collectives."""
