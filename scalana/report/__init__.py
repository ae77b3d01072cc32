"""Reports: one file per format, each with one ``render``. They read an analysis and write a string, no more."""
