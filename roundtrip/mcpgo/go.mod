module github.com/rondo-mcp/rondo/roundtrip/mcpgo

go 1.26.0

require github.com/rondo-mcp/rondo v0.0.0

require github.com/mark3labs/mcp-go v1.2.1 // indirect

replace github.com/rondo-mcp/rondo => ../..
