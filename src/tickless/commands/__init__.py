"""Shell commands as tasks: one thread starts them, reads what they print, and notices their end."""
