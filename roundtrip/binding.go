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
	// credentialIssuer begins with a byte that no host's issuer begins with.
	credentialIssuer  = "\x00credential"
	credentialPurpose = "rondo credential binding 1\x00"
)

// errCredential is for the log. A renewed token cannot be distinguished from another caller's.
var errCredential = errors.New("principal; credentials may have been renewed")

// bindPrincipal returns the owner of a flow's state: the principal of the call or, if it is
// anonymous, a MAC of its credential. The MAC's key is the flow's random id, known only to servers
// that can open the state. So the MAC is the same on all replicas, outlives a change of keys,
// cannot be compared between flows, and reveals no credential. Quotas use the call's principal:
// callers with invented credentials share those of the anonymous caller.
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

// reportAnonymous reports the funnel's first state that is bound to no caller.
func (e *exchange) reportAnonymous(ctx context.Context, c *claims.Claims) {
	if c.Principal.Anonymous() && !e.funnel.silent &&
		e.funnel.anonymous.CompareAndSwap(false, true) {
		e.observe(ctx, event.AnonymousState{Where: e.where})
	}
}
