package server

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

var ErrSessionClosed = errSessionClosed

func Running(x *Session) int { return x.requests.Len() }

func PrincipalFrom(ctx context.Context) protocol.Principal { return principalFrom(ctx) }
