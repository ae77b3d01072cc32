"""The structure of programs and models, for people and for programs."""
