"""What a scheduler answers to people and programs outside: documents, and the Unix socket that brings them."""
