"""The tables of programs, their notation, and the names that programs are looked up by."""
