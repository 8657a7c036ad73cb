// Package hosted puts rondo in front of a server that is built on another SDK.
package hosted

import (
	"context"
	"errors"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// A Source returns the peer that serves a hosted session.
type Source func(ctx context.Context, caller *Caller) (protocol.LegacyPeer, error)

// Options configure a [Server]. The zero value works.
type Options struct {
	Server server.Options
}

// A Server is rondo's server in front of a hosted one.
type Server struct{}

// New returns a server in front of the peers of source.
func New(source Source, opts *Options) (*Server, error) {
	return nil, errors.New("hosted: stub")
}
