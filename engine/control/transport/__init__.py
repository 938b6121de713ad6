"""What carries messages between clients and the control server: HTTP/1.1, WebSocket, lines."""
