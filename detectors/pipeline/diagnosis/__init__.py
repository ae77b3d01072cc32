"""Why a measured step took as long as it did, which stage or link is the cause, and what a change brings."""
