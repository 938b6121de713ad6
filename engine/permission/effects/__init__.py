"""The values that the shell analysis passes around: program effects and scan results. They import nothing else."""
