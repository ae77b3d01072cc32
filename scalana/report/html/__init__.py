"""The report as one page of HTML, without scripts and without anything from elsewhere."""
