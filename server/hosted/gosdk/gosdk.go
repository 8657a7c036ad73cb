// Package gosdk puts rondo in front of a server built on the official Go SDK
// (github.com/modelcontextprotocol/go-sdk, release 1.8), whose handlers stay unchanged:
//
//	front, err := gosdk.New(mcpServer, nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	handler, err := front.Handler(nil) // or front.Server().ServeStdio(ctx)
//
// See package hosted for what clients and handlers see.
//
// Add all middleware to the server before: middleware added later wraps this package's, so it sees
// neither the context nor the cancellation of the call, and its panics end the process.
package gosdk

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/server/hosted"
)

// Options configure a hosted server of the SDK. The zero value works.
type Options struct {
	hosted.Options
	// TokenInfo returns RequestExtra.TokenInfo for handlers. ctx is the request's. Calls may
	// overlap. Nil means the value that the SDK's auth.RequireBearerToken set, if it wraps the HTTP
	// handler; otherwise the subject of the caller's principal as UserID, or nil without one.
	TokenInfo func(ctx context.Context, caller *hosted.Caller) *auth.TokenInfo
	// TrueElicitation shows handlers whether the client supports forms and URLs. By default their
	// session always declares support: otherwise the SDK itself would refuse to ask, and a handler
	// that drops that error would act without an answer. So rondo gets the question and refuses the
	// call, saying why. Set it for handlers that check. Other capabilities are the client's.
	TrueElicitation bool
	// TrueRevision makes the SDK serve requests of revision 2026-07-28, including lists, in that
	// revision, for servers that treat it differently. By default handlers see a session of an
	// older revision, in which they can push questions. With it the SDK refuses pushes in revision
	// 2026-07-28, as it does without rondo: handlers return their questions, or use roundtrip.Ask.
	TrueRevision bool
}

// New returns rondo's server in front of s, which serves all callers. s must not be nil; opts may
// be. It fails as [hosted.New] does.
func New(s *mcp.Server, opts *Options) (*hosted.Server, error) {
	if s == nil {
		return nil, errors.New("gosdk: the server is nil")
	}
	h := newHost(opts)
	return hosted.New(hosted.One(h.peerFor(s)), &h.opts.Options)
}

// NewEach returns rondo's server in front of servers from makeServer: one for each session of the
// hosted server, see [hosted.Caller].SessionID and [hosted.Options].PerRequest. makeServer gets the
// context of the request that needs it, and may return the same server again. Calls overlap.
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

// Peer returns a server of the SDK as a peer, for a custom [hosted.Source]. It adds middleware to
// s, so call it once for each server. opts may be nil; its [hosted.Options] are not used.
func Peer(s *mcp.Server, opts *Options) hosted.Peer { return newHost(opts).peerFor(s) }
