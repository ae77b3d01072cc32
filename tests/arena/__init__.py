"""Random programs with one planted fault, or none: what the report says, against what the program measured itself."""
