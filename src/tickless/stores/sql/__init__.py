"""Stores that keep tasks in a database. `sqlite` is the door to a file, `statements` reads the SQL that lies beside."""
