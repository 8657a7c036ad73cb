package e2e_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

// TestRetriedReadsAreNotCached guards against a defect of another implementation: the result of a
// retried resources/read was cached, and later reads were served without asking.
func TestRetriedReadsAreNotCached(t *testing.T) {
	question := ask(`"inputRequests":{"c":` + nameForm + `}`)
	h, who := newScripted(t, question, completeRead, question, completeRead), &ada{}
	c := h.dial(who.options())
	for range 2 {
		if _, err := c.ReadResource(within(t, patience), "u:x"); err != nil {
			t.Fatal(err)
		}
	}
	h.wantRequests(4)
	who.wantAsked(t, 2)
}

// TestManualRetriesReachTheWire guards against a defect of another implementation: with manual
// answers input_required was cached, and the retry never reached the wire.
func TestManualRetriesReachTheWire(t *testing.T) {
	h := newScripted(t, completeRead)
	c := h.dial(nil)
	p := &protocol.ReadResourceParams{URI: "u:x"}
	p.InputResponses = protocol.InputResponses{{Key: "c", Result: raw(`{"action":"accept","content":{"name":"Ada"}}`)}}
	p.RequestState = protocol.StateText("s")
	for range 2 {
		if _, err := c.ReadResourceParams(within(t, patience), p); err != nil {
			t.Fatal(err)
		}
	}
	for _, sent := range h.wantRequests(2) {
		if string(sent["requestState"]) != `"s"` || string(sent["inputResponses"]) != `{"c":{"action":"accept","content":{"name":"Ada"}}}` {
			t.Errorf("got %s and %s", sent["requestState"], sent["inputResponses"])
		}
	}
}
