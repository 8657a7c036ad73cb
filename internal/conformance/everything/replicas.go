package main

import (
	"errors"
	"os"
	"strings"

	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// These variables configure a replica. Without the key, a process serves only its own clients.
const (
	envKeys     = "RONDO_KEYS"     // shared keys, "id:secret,id:secret"
	envReplica  = "RONDO_REPLICA"  // name of this replica, a DNS label
	envReplicas = "RONDO_REPLICAS" // "a=http://10.0.0.1:8080/mcp,b=http://..."
)

func keysFromEnv() (*keys.Keyring, error) {
	if os.Getenv(envKeys) == "" {
		return nil, nil
	}
	return keys.KeyringFromEnv(os.LookupEnv, envKeys)
}

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
