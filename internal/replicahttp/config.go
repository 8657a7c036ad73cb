package replicahttp

import (
	"context"
	"crypto/tls"
	"net/url"

	"github.com/rondo-mcp/rondo/internal/replica"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// A Config is what hosts say about replicas. The packages for hosts have a type of their own
// with the same fields, which document them.
type Config struct {
	Name   string
	Keys   *keys.Keyring
	Locate func(ctx context.Context, name string) (*url.URL, error)
	TLS    *tls.Config
}

// NewFromConfig returns the forwarder of a host, nil where nothing is passed on: there is no
// configuration, no shared key or no function that locates replicas.
func NewFromConfig(c *Config) (*Forwarder, error) {
	if c == nil {
		return nil, nil
	}
	if _, err := replica.NewOwner(c.Name); err != nil {
		return nil, err
	}
	if c.Keys == nil || c.Keys.Ephemeral() || c.Locate == nil {
		return nil, nil
	}
	return New(Options{Name: c.Name, Keys: c.Keys.Derive(replica.Purpose), Locate: c.Locate,
		TLS: c.TLS})
}
