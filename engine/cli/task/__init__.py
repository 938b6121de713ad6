"""The task of a prompt: its words, standard input, and the files that it names."""
