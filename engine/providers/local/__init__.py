"""Models on the user's machine: GGUF files served by llama.cpp, and limits of local servers."""
