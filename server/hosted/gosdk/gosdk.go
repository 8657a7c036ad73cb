// Package gosdk puts rondo in front of a server that is built on the official Go SDK
// (github.com/modelcontextprotocol/go-sdk, release 1.8), whose handlers stay as they are:
//
//	front, err := gosdk.New(mcpServer, nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	handler, err := front.Handler(nil) // or front.Server().ServeStdio(ctx)
//
// Package hosted says what clients and handlers see.
//
// Add all middleware to the server before: what is added later runs around the middleware of this
// package, so that it sees neither the context of the call nor its cancellation, and a panic in it
// ends the process.
package gosdk

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/server/hosted"
)

// Options configure how a server of the SDK is hosted. The zero value works.
type Options struct {
	hosted.Options
	// TokenInfo returns what handlers see in RequestExtra.TokenInfo. Its context is that of the
	// request. Calls may overlap. Nil: what the SDK's auth.RequireBearerToken has put into the
	// context, where that wraps the HTTP handler; else the subject of the caller's principal as the
	// UserID, and nothing for a caller without one.
	TokenInfo func(ctx context.Context, caller *hosted.Caller) *auth.TokenInfo
	// TrueElicitation shows handlers whether the client has declared that it can be asked by forms
	// and URLs. By default the session that they see always declares it: the SDK itself refuses to
	// ask where it is not, and a handler that drops that error would act without an answer. So the
	// question reaches rondo, which refuses the call and says what lacks. Set it for handlers that
	// look at the capability and do without. All other capabilities are always the client's.
	TrueElicitation bool
	// TrueRevision has the SDK serve requests of revision 2026-07-28, lists too, as that revision:
	// for servers that list or do something else for it. By default handlers see a session of an
	// older revision, in which their pushed questions work. With it the SDK refuses those in
	// revision 2026-07-28, as it does alone: handlers return their questions, or use roundtrip.Ask.
	TrueRevision bool
}

// New returns rondo's server in front of s, which serves everybody. s must not be nil; opts may
// be. It fails as [hosted.New] does.
func New(s *mcp.Server, opts *Options) (*hosted.Server, error) {
	if s == nil {
		return nil, errors.New("gosdk: the server is nil")
	}
	h := newHost(opts)
	return hosted.New(hosted.One(h.peerFor(s)), &h.opts.Options)
}

// NewEach returns rondo's server in front of those that makeServer makes: one for each session of
// the hosted server, see [hosted.Caller].SessionID and [hosted.Options].PerRequest. Its context is
// that of the request that needs the session. It may return the same server again. Calls may
// overlap.
func NewEach(makeServer func(ctx context.Context, caller *hosted.Caller) (*mcp.Server, error),
	opts *Options) (*hosted.Server, error) {
	h := newHost(opts)
	return hosted.New(func(ctx context.Context, caller *hosted.Caller) (
		hosted.Peer, error) {
		s, err := makeServer(ctx, caller)
		if err != nil {
			return nil, err
		}
		if s == nil {
			return nil, errors.New("gosdk: no server for this caller")
		}
		return h.peerFor(s), nil
	}, &h.opts.Options)
}

// Peer returns a server of the SDK as the peer of a hosted server: for a [hosted.Source] of one's
// own. It adds middleware to the server, so call it once for each. opts may be nil, and the
// [hosted.Options] in them are not used.
func Peer(s *mcp.Server, opts *Options) hosted.Peer { return newHost(opts).peerFor(s) }
