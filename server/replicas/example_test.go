package replicas_test

import (
	"context"
	"fmt"
	"os"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// This is a replica of a Kubernetes StatefulSet, whose pods have DNS names.
func Example() {
	// The keys are the fleet's, the name is this replica's.
	os.Setenv("RONDO_KEYS", "2026-07:c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3JldA==")
	os.Setenv("POD_NAME", "deploys-0")

	ring, err := keys.KeyringFromEnv(os.LookupEnv, "RONDO_KEYS")
	if err != nil {
		panic(err)
	}
	srv, err := server.New(&server.Options{
		Info:      protocol.Implementation{Name: "deploys", Version: "1.0.0"},
		Roundtrip: roundtrip.Options{Sealer: ring},
	})
	if err != nil {
		panic(err)
	}
	locate, err := replicas.LocateByPattern("https://{name}.deploys.default.svc.cluster.local:8080/mcp")
	if err != nil {
		panic(err)
	}
	opts := &serverhttp.Options{
		Replicas: &replicas.Options{Name: os.Getenv("POD_NAME"), Keys: ring, Locate: locate}}
	_ = srv // srv is served with opts

	other, err := opts.Replicas.Locate(context.Background(), "deploys-1")
	if err != nil {
		panic(err)
	}
	fmt.Println(other)
	// Output: https://deploys-1.deploys.default.svc.cluster.local:8080/mcp
}
