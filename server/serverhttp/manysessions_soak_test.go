//go:build soak

package serverhttp_test

import (
	"time"

	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// manySessions is the default limit of a handler.
const (
	manySessions        = serverhttp.DefaultMaxSessions
	manySessionsTimeout = 60 * time.Second
)
