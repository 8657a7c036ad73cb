module github.com/rondo-mcp/rondo/elicitation/gosdk

go 1.26.0

require github.com/rondo-mcp/rondo v0.0.0

require github.com/modelcontextprotocol/go-sdk v1.8.0 // indirect

replace github.com/rondo-mcp/rondo => ../..
