"""The structure of programs: the graph (PSG), what front ends produce for it, how two of them compare."""
