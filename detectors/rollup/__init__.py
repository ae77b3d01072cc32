"""From delay costs to causes: entries that are one cause, the line that is named, the way there."""
