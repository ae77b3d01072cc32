"""Pictures of steps, as SVG."""
