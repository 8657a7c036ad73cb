package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// The settings come from the environment. No default is unsafe: a missing value is an error.
const (
	envURL      = "MCP_URL"      // where clients find the server; tokens are for this URL
	envIssuer   = "MCP_ISSUER"   // issuer of the tokens
	envData     = "MCP_DATA"     // folder that stands for the bank
	envDatabase = "MCP_DATABASE" // PostgreSQL that replicas share, "postgres://..."
	envOrigins  = "MCP_ORIGINS"  // web pages that may send requests, "https://app.example.com,..."
	envKeys     = "RONDO_KEYS"   // they seal clients' states; replicas share them
	envReplica  = "RONDO_REPLICA"
	envReplicas = "RONDO_REPLICAS"
)

type settings struct {
	url      *url.URL // nil if the program runs with -stdio
	data     string
	hosts    []string
	origins  []string
	keys     keys.Sealer
	guard    *bearer.ResourceServer
	shared   *sqlstore.Store // nil for a single process
	replicas *replicas.Options
}

func (s *settings) publicURL() string {
	if s.url == nil {
		return "http://127.0.0.1:8080" // another process serves the visits' page
	}
	return s.url.Scheme + "://" + s.url.Host
}

func settingsFromEnv(stdio bool) (*settings, error) {
	s := &settings{data: os.Getenv(envData)}
	if s.data == "" {
		return nil, errors.New(envData + " names no folder")
	}
	if stdio {
		return s, nil // there is one user, who started the program: no tokens, keys of the process
	}
	ring, err := keys.KeyringFromEnv(os.LookupEnv, envKeys)
	if err != nil {
		return nil, err
	}
	s.keys = ring
	if s.url, err = url.Parse(os.Getenv(envURL)); err != nil || s.url.Host == "" {
		return nil, fmt.Errorf("%s is not the URL of the server", envURL)
	}
	s.hosts = []string{s.url.Hostname()}
	if origins := os.Getenv(envOrigins); origins != "" {
		s.origins = strings.Split(origins, ",")
	}
	s.guard, err = bearer.New(bearer.Options{
		Resource:  s.url.String(),
		Issuers:   []bearer.Issuer{{URL: os.Getenv(envIssuer)}},
		Supported: []string{scopeRead, scopePay},
	})
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", envURL, envIssuer, err)
	}
	s.replicas, err = replicasFromEnv(ring)
	return s, err
}

// replicasFromEnv returns all replicas, including this one, or nil for a single process.
func replicasFromEnv(ring *keys.Keyring) (*replicas.Options, error) {
	name, where := os.Getenv(envReplica), os.Getenv(envReplicas)
	if name == "" && where == "" {
		return nil, nil
	}
	if name == "" || where == "" {
		return nil, fmt.Errorf("of %s and %s one is not set", envReplica, envReplicas)
	}
	urls := map[string]string{}
	for entry := range strings.SplitSeq(where, ",") {
		name, url, _ := strings.Cut(strings.TrimSpace(entry), "=")
		urls[name] = url
	}
	locate, err := replicas.LocateByList(urls)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envReplicas, err)
	}
	if _, ok := urls[name]; !ok { // without it, the other replicas would end its sessions
		return nil, fmt.Errorf("%s does not name %s=%q itself", envReplicas, envReplica, name)
	}
	return &replicas.Options{Name: name, Keys: ring, Locate: locate}, nil
}
