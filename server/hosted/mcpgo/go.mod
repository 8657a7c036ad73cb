module github.com/rondo-mcp/rondo/server/hosted/mcpgo

go 1.26.0

require (
	github.com/mark3labs/mcp-go v1.2.0
	github.com/rondo-mcp/rondo v0.1.0
)

require (
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/spf13/cast v1.7.1 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.41.0 // indirect
	golang.org/x/text v0.21.0 // indirect
	golang.org/x/tools v0.42.0 // indirect
)

replace github.com/rondo-mcp/rondo => ../../..
