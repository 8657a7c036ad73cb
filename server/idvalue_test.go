package server_test

import (
	"strings"
	"testing"
	"time"
)

// Two spellings of a number are one id, which is returned as sent.
func TestIDsOnLinesHaveValues(t *testing.T) {
	h := newHarness(t, nil)
	addAsk(h.Server, false)
	c := newTypist(t, t.Context(), h.Server, nil)
	call := func(id string) {
		c.say(strings.Replace(askCall, `"id":1`, `"id":`+id, 1))
	}
	c.ask(`{"jsonrpc":"2.0","id":7.0,"method":"ping"}`, `"id":7.0`)
	c.ask(`{"jsonrpc":"2.0","id":"\u0061","method":"ping"}`, `"id":"\u0061"`)
	call("100")
	c.expect("elicitation/create")
	call("1e2")
	c.expect(`"id":1e2`, "a request with this id is running")
	call(`"100"`)
	c.expect("elicitation/create")
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.00E+2}}`)
	c.expect("notifications/cancelled") // the question of 100 is withdrawn
	// The id is free after the call has ended, which is later.
	for range 1000 {
		call("100.0")
		if strings.Contains(c.expect(), "elicitation/create") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the id of a cancelled call stays taken")
}
