module github.com/rondo-mcp/rondo/client/oauth/keyringstore

go 1.26.0

require (
	github.com/gofrs/flock v0.12.1
	github.com/rondo-mcp/rondo v0.1.0
	github.com/zalando/go-keyring v0.2.8
)

require (
	github.com/danieljoos/wincred v1.2.3 // indirect
	github.com/go-jose/go-jose/v4 v4.1.3 // indirect
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/godbus/dbus/v5 v5.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.35.0 // indirect
	golang.org/x/text v0.21.0 // indirect
)

replace github.com/rondo-mcp/rondo => ../../..
