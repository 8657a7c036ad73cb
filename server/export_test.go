package server

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

// ErrSessionClosed is errSessionClosed.
var ErrSessionClosed = errSessionClosed

// Running returns how many requests of a session are being served.
func Running(x *Session) int { return x.requests.Len() }

// PrincipalFrom returns what [WithPrincipal] has put into ctx.
func PrincipalFrom(ctx context.Context) protocol.Principal { return principalFrom(ctx) }
