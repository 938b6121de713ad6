"""The Gemini API, at Google and on Vertex."""
