"""Commands run as process trees: started, watched, ended, and found again after a crash."""
