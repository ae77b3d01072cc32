"""Topics about pipelines: each by itself, and all replicas together."""
