//go:build node && proxy

package interop_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// An event happens to a session while its client is asked, or between two calls.
type event struct {
	what     string
	question bool // it happens while the user is asked
	happen   func(t *testing.T, f *front, owner *replica)
	undo     func(t *testing.T, owner *replica)
}

const asking = "test_input_required_result_elicitation"

func events() []event {
	kill := func(t *testing.T, f *front, owner *replica) {
		owner.kill(t)
		f.awaitGone(t)
	}
	return []event{
		{what: "the connection of the call breaks in mid-question", question: true,
			happen: func(t *testing.T, f *front, _ *replica) { f.breakCall(t, asking) }},
		{what: "the owner drains in mid-question", question: true,
			happen: func(t *testing.T, _ *front, owner *replica) { owner.drain(t) },
			undo: func(t *testing.T, owner *replica) {
				owner.kill(t) // kills it, instead of waiting until its last session has ended
				owner.start(t)
			}},
		{what: "the owner is killed in mid-question", question: true, happen: kill,
			undo: func(t *testing.T, owner *replica) { owner.start(t) }},
		{what: "the owner is killed between two calls", happen: kill,
			undo: func(t *testing.T, owner *replica) { owner.start(t) }},
		{what: "the owner starts again between two calls",
			happen: func(t *testing.T, f *front, owner *replica) {
				owner.kill(t)
				owner.start(t)
				f.awaitGone(t)
			}},
	}
}

// outcomesFile is a table in the documentation.
const outcomesFile = "testdata/replicas.md"

const outcomesHead = "| client | what happens | the call | the next call | sessions |\n" +
	"|---|---|---|---|---|\n"

// compareOutcomes compares clients' outcomes, which are the same behind each proxy, with the table.
// With -update it writes the table.
func compareOutcomes(t *testing.T, program string) {
	tables := map[string]string{}
	var mu sync.Mutex
	t.Run("proxies", func(t *testing.T) {
		for _, p := range proxies() {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				rows := outcomes(t, p, program)
				mu.Lock()
				defer mu.Unlock()
				tables[p.name] = outcomesHead + strings.Join(rows, "")
			})
		}
	})
	if flag.Lookup("update").Value.String() == "true" {
		err := os.WriteFile(outcomesFile, []byte(tables["nginx"]), 0o644)
		noError(t, err)
	}
	want, err := os.ReadFile(outcomesFile)
	noError(t, err)
	for name, table := range tables {
		if table != string(want) {
			t.Errorf("behind %s the table is another:\n%s", name, table)
		}
	}
}

// outcomes returns the rows of the table. Clients run in parallel, each with its own fleet.
func outcomes(t *testing.T, p proxy, program string) []string {
	rows := make([]string, len(sessionClients()))
	t.Run("clients", func(t *testing.T) {
		for i, c := range sessionClients() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				f := startFleet(t, program)
				address := p.serve(t, f.addresses())
				for _, e := range events() {
					rows[i] += outcome(t, c, e, f, address)
				}
			})
		}
	})
	return rows
}

func outcome(t *testing.T, c sessionClient, e event, fleet *fleet, address string) string {
	t.Helper()
	who := newPerson(t, answers{"What is your name?": `{"name":"Ada"}`})
	f := newFront(t, address)
	s, err := c.open(t, f.url, who)
	noError(t, err)
	ctx := within(t, time.Minute)
	name, err := s.do(ctx, tool("test_replica", nil))
	noError(t, err)
	owner := fleet.named(t, name)
	target, happened := "test_simple_text", make(chan struct{})
	if e.question {
		target = asking
		who.whenAsked = sync.OnceFunc(func() {
			defer close(happened)
			e.happen(t, f, owner)
		})
	} else {
		e.happen(t, f, owner)
		close(happened)
	}
	first := report(ctx, s, target)
	select {
	case <-happened: // the call may fail before the event
	case <-ctx.Done():
		t.Fatal("the person was not asked")
	}
	next := report(ctx, s, "test_simple_text")
	opened := f.count(isInitialize)
	f.breakAll()
	if e.undo != nil {
		e.undo(t, owner)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %d |\n", c.name, e.what, first, next, opened)
}

// awaitGone waits until every replica knows that the session's owner is gone.
func (f *front) awaitGone(t *testing.T) {
	t.Helper()
	const replicas, ping = 3, `{"jsonrpc":"2.0","id":99,"method":"ping"}`
	for unbroken := 0; unbroken < 2*replicas; {
		status, text := send(t, http.MethodPost, f.url, f.session(), "", ping)
		switch status {
		case http.StatusNotFound:
			unbroken++
		case http.StatusBadGateway:
			unbroken = 0
		default:
			t.Errorf("a request for a session that is gone: %d %s", status, text)
			return
		}
	}
}

// clientTimeout is for clients that would wait for a lost answer.
const clientTimeout = 5 * time.Second

// report returns the outcome of a call.
func report(ctx context.Context, s session, name string) string {
	r := tool(name, nil)
	r.Timeout = int(clientTimeout.Milliseconds())
	text, err := s.do(ctx, r)
	switch {
	case err == nil && !strings.HasPrefix(text, "error: "):
		return "answered"
	case err == nil:
		return text
	}
	for _, known := range []struct{ part, means string }{
		{"client is closing", "fails: the client has closed itself"},
		{"the next call opens a new session", "fails: session not found"},
		{"ession not found", "fails: session not found"},
		{"session terminated (404)", "fails: session not found"},
		{"unexpected nil response", "fails: the stream broke off, and is not resumed"},
		{"timed out", "no answer until the client's timeout"},
	} {
		if strings.Contains(err.Error(), known.part) {
			return known.means
		}
	}
	return "error: " + err.Error()
}
