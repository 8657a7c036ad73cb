package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// The environment of a process that is one of several replicas. Without the key each process
// has one of its own and serves its own clients alone.
const (
	// envKeys holds the keys that the replicas share, "id:secret,id:secret".
	envKeys = "RONDO_KEYS"
	// envReplica is the name of this replica, a DNS label.
	envReplica = "RONDO_REPLICA"
	// envReplicas says where the replicas are: "a=http://10.0.0.1:8080/mcp,b=http://...".
	envReplicas = "RONDO_REPLICAS"
)

// keysFromEnv returns the keys that the replicas share, nil: there are none.
func keysFromEnv() (*keys.Keyring, error) {
	if os.Getenv(envKeys) == "" {
		return nil, nil
	}
	return keys.KeyringFromEnv(os.LookupEnv, envKeys)
}

// replicasFromEnv returns what this process knows of the other replicas, nil: there are none.
func replicasFromEnv(ring *keys.Keyring) (*replicas.Options, error) {
	name, where := os.Getenv(envReplica), os.Getenv(envReplicas)
	if name == "" && where == "" {
		return nil, nil
	}
	if name == "" || where == "" || ring == nil {
		return nil, errors.New(envReplica + ", " + envReplicas + " and " + envKeys + " go together")
	}
	r := &replicas.Options{Name: name, Keys: ring}
	var err error
	urls := map[string]string{}
	for entry := range strings.SplitSeq(where, ",") {
		name, url, _ := strings.Cut(strings.TrimSpace(entry), "=")
		urls[name] = url
	}
	r.Locate, err = replicas.LocateByList(urls)
	return r, err
}

// addReplica registers a tool that says which replica runs it: in a session it is always the
// same one.
func addReplica(srv *server.Server, name string) {
	add(srv, "test_replica",
		"Answers with the name of the replica that runs it.",
		func(context.Context, *server.ToolCall, nothing) (outcome, error) {
			return server.Text(name), nil
		})
}
