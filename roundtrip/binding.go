package roundtrip

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const (
	// credentialIssuer begins with a byte that no issuer of a host begins with.
	credentialIssuer  = "\x00credential"
	credentialPurpose = "rondo credential binding 1\x00"
)

// errCredential is for the log. An answer that comes with another token looks the same
// whether the token was renewed or is somebody else's.
var errCredential = errors.New("principal; credentials may have been renewed")

// bindPrincipal returns whom a state of a flow is for: the principal of the call, or, where the
// host knows none, the holder of the credential: a MAC of it under the id of the flow, which is
// random and known only to those who can open the state. So it is the same on all replicas and
// outlives a change of keys, cannot be compared with that of another flow, and the credential
// itself is in no state. Quotas by principal use that of the call: whoever invents credentials is
// one anonymous caller.
func (e *exchange) bindPrincipal(flow [16]byte) protocol.Principal {
	if !e.call.Principal.Anonymous() || e.call.Credential == "" {
		return e.call.Principal
	}
	return protocol.Principal{Issuer: credentialIssuer,
		Subject: digestCredential(flow, e.call.Credential)}
}

// digestCredential is not inlined: only calls with a credential pay for the copy of flow.
//
//go:noinline
func digestCredential(flow [16]byte, credential string) string {
	mac := hmac.New(sha256.New, flow[:])
	mac.Write([]byte(credentialPurpose))
	mac.Write([]byte(credential))
	return hex.EncodeToString(mac.Sum(nil))
}

func (e *exchange) rejectPrincipal(c *claims.Claims) *rejection {
	if c.Principal.Issuer == credentialIssuer {
		return &rejection{words.ReasonPrincipal, errCredential}
	}
	return &rejection{reason: words.ReasonPrincipal}
}

// reportAnonymous reports the first state that is bound to no caller.
func (e *exchange) reportAnonymous(ctx context.Context, c *claims.Claims) {
	if c.Principal.Anonymous() && !e.funnel.silent &&
		e.funnel.anonymous.CompareAndSwap(false, true) {
		e.observe(ctx, event.AnonymousState{Where: e.where})
	}
}
