"""Tests in real time: threads, processes, signals, kill -9."""
