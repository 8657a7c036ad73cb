//go:build redis

package redisstore_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// newForwarders returns routers that have nothing in common but Redis, as the external processors
// of a proxy: a question passes one of them, and its reply any.
func newForwarders(t *testing.T) (forwarders [3]*elicitation.Router) {
	t.Helper()
	connect := startRedis(t)
	secret, err := keys.NewKey("k1", []byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keys.NewKeyring(secret)
	if err != nil {
		t.Fatal(err)
	}
	for i := range forwarders {
		router, err := elicitation.New(&elicitation.Options{
			Store: newQuestionStore(t, connect), Keys: ring.Derive(elicitation.KeyPurpose),
			Limits: elicitation.Limits{Pending: -1, PerPrincipal: -1, PerUpstream: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if n := router.Pending(); n != 0 {
				t.Errorf("%d questions are pending", n)
			}
		})
		forwarders[i] = router
	}
	return forwarders
}

func senderOf(session, user string) elicitation.Sender {
	return elicitation.Sender{Session: session,
		Principal: protocol.Principal{Issuer: "https://id.example", Subject: user}}
}

// beginCall begins a call of a client of one forwarder, which ends with the function returned.
func beginCall(t *testing.T, router *elicitation.Router, from elicitation.Sender,
	upstream elicitation.UpstreamKey) (*elicitation.Call, func()) {
	session, err := router.Attach(elicitation.SessionInfo{
		ID: from.Session, Principal: from.Principal, Version: protocol.V20251125,
		Capabilities: protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}},
	})
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	call, err := router.Begin(t.Context(), elicitation.Origin{Session: session},
		elicitation.Via{}, upstream)
	if err != nil {
		t.Error(err)
	}
	return call, func() { call.End(); session.Detach() }
}

const askReason = `{"message":"Why?","requestedSchema":{"type":"object",` +
	`"properties":{"reason":{"type":"string"}}}}`

// answer is what the person of one session answers to the nth question.
func answer(session string, n int64) json.RawMessage {
	return fmt.Appendf(nil, `{"action":"accept","content":{"reason":"%s %d"}}`, session, n)
}

// TestForwarders has questions and replies pass any of three forwarders. All upstreams give their
// questions the ids 1 and 2. Replies of others, and second ones, do not pass.
func TestForwarders(t *testing.T) {
	forwarders := newForwarders(t)
	anyOf := func() *elicitation.Router { return forwarders[rand.IntN(len(forwarders))] }
	var passed, dropped atomic.Int32
	const sessions = 60
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			user, session := fmt.Sprint("user-", i%2), fmt.Sprint("session-", i)
			upstream := elicitation.UpstreamKey("tools/" + session)
			call, end := beginCall(t, anyOf(), senderOf(session, user), upstream)
			if call == nil {
				return
			}
			defer end()
			for n := range int64(2) {
				offered, err := call.Offer(t.Context(), json.RawMessage(askReason),
					&elicitation.ElicitOptions{UpstreamID: protocol.IntID(n + 1)}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				offered.ConfirmDelivery()
				reply := func(from elicitation.Sender, result json.RawMessage) {
					resolved, _, err := anyOf().Resolve(t.Context(), from,
						&protocol.Response{ID: offered.Request().ID, Result: result})
					switch {
					case err != nil:
						t.Error(err)
					case resolved == nil:
						dropped.Add(1)
					case resolved.Upstream != upstream ||
						resolved.Response.ID != protocol.IntID(n+1) ||
						string(resolved.Response.Result) != string(answer(session, n)):
						t.Errorf("%s: %+v passes to %s", session, resolved.Response,
							resolved.Upstream)
					default:
						passed.Add(1)
					}
				}
				reply(senderOf("session-x", user), answer("stranger", n))
				reply(senderOf(session, "mallory"), answer("mallory", n))
				reply(senderOf(session, user), answer(session, n))
				reply(senderOf(session, user), answer("again", n))
			}
		})
	}
	wg.Wait()
	if p, d := passed.Load(), dropped.Load(); p != 2*sessions || d != 3*2*sessions {
		t.Errorf("%d replies passed and %d were dropped, want %d and %d", p, d, 2*sessions,
			3*2*sessions)
	}
}
