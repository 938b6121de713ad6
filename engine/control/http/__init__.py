"""HTTP/1.1 and WebSocket connections of the control server: strict heads, access checks, framing."""
