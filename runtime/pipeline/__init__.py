"""Recording of pipelines: which stage worked on which microbatch, when, and what it waited for."""
