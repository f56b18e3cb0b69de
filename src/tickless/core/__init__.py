"""The pure machine: no clock, no thread, no I/O. Time is an argument."""
