module github.com/rondo-mcp/rondo/roundtrip/redisstore

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.7.3
	github.com/rondo-mcp/rondo v0.1.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/google/jsonschema-go v0.4.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/stretchr/testify v1.10.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/text v0.21.0 // indirect
)

replace github.com/rondo-mcp/rondo => ../..
