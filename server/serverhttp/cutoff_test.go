package serverhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// cutMoments are the moments of a round at which the connection is cut, in their order.
var cutMoments = []string{"middleware", "claim", "claimed", "handler", "first look", "hold",
	"second look", "third look", "finished", "commit"}

// A cutter cuts the connection of a request at one moment, once.
type cutter struct {
	store.Guard
	moment string
	once   sync.Once
	cancel atomic.Pointer[context.CancelFunc]
	looks  atomic.Int32
}

// reach cuts at the moment and waits until the server has noticed, where it has a context.
func (c *cutter) reach(ctx context.Context, moment string) {
	if cancel := c.cancel.Load(); moment == c.moment && cancel != nil {
		c.once.Do(func() {
			(*cancel)()
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
		})
	}
}

func (c *cutter) Claim(ctx context.Context, id, owner string, print [32]byte,
	until time.Time) (store.Claim, error) {
	c.reach(ctx, "claim")
	claim, err := c.Guard.Claim(ctx, id, owner, print, until)
	c.reach(ctx, "claimed")
	return cutClaim{claim, c}, err
}

type cutClaim struct {
	store.Claim
	cutter *cutter
}

func (c cutClaim) Commit(ctx context.Context, outcome []byte) error {
	if cancel := c.cutter.cancel.Load(); c.cutter.moment == "commit" && cancel != nil {
		c.cutter.once.Do(*cancel) // ctx does not end with the call
	}
	return c.Claim.Commit(ctx, outcome)
}

// TestFlowsSurviveACutConnection: whenever the connection is cut in the round in which Await waits,
// the same request completes when it is sent again, and the effect happens once.
func TestFlowsSurviveACutConnection(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		for _, moment := range cutMoments {
			t.Run(fmt.Sprintf("guarded %v/%s", guarded, moment), func(t *testing.T) {
				t.Parallel()
				testCutConnection(t, moment, guarded)
			})
		}
	}
}

func testCutConnection(t *testing.T, moment string, guarded bool) {
	c := &cutter{Guard: store.NewMemoryGuard(0), moment: moment}
	var effects sync.Map // by the flow, as a bank keeps them
	var opts server.Options
	opts.Middleware = []server.Middleware{func(next server.Handler) server.Handler {
		return func(ctx context.Context, r *server.Request) (protocol.Result, error) {
			c.reach(ctx, "middleware")
			return next(ctx, r)
		}
	}}
	if guarded {
		opts.Roundtrip.Guard = c
	}
	srv, err := server.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	server.AddRawTool(srv, server.Tool{Name: "t"}, func(ctx context.Context,
		_ *server.ToolCall) (protocol.CallToolOutcome, error) {
		c.reach(ctx, "handler")
		if err := roundtrip.AskURL(ctx, "login", "Sign in.", "https://id.example/"); err != nil {
			return nil, err
		}
		err := roundtrip.Await(ctx, "login", func(ctx context.Context) (bool, error) {
			n := c.looks.Add(1)
			c.reach(ctx, map[int32]string{1: "first look", 2: "second look", 3: "third look"}[n])
			if n == 1 && c.moment == "hold" {
				time.AfterFunc(100*time.Millisecond, func() { c.reach(ctx, "hold") })
			}
			return n >= 4, ctx.Err()
		})
		if err != nil {
			return nil, err
		}
		c.reach(ctx, "finished")
		key, err := roundtrip.IdempotencyKey(ctx, "login")
		effects.Store(key, true)
		return server.Text("signed in"), err
	})
	h, err := serverhttp.New(srv, nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(h)
	t.Cleanup(func() { web.Close(); _ = srv.Close() })

	state := c.post(t, web.URL, nil, "")["requestState"].(string)
	answer := fmt.Sprintf(`,"requestState":%q,"inputResponses":{"login":{"action":"accept"}}`, state)
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel.Store(&cancel)
	c.post(t, web.URL, ctx, answer)
	for range 100 {
		result := c.post(t, web.URL, t.Context(), answer)
		if result == nil { // the one that was cut is ending
			time.Sleep(50 * time.Millisecond)
			continue
		}
		n := 0
		effects.Range(func(any, any) bool { n++; return true })
		if text := fmt.Sprint(result); !strings.Contains(text, "signed in") || n != 1 {
			t.Errorf("got %s, %d effects", text, n)
		}
		return
	}
	t.Error("the request is never served again")
}

// post calls the tool and returns the result, nil for none.
func (c *cutter) post(t *testing.T, url string, ctx context.Context, more string) map[string]any {
	t.Helper()
	if ctx == nil {
		ctx = t.Context()
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}` + more +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method": "tools/call", "Mcp-Name": "t"} {
		r.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil
	}
	if i := bytes.Index(data, []byte("{")); i > 0 { // an event
		data = data[i:]
	}
	var message struct{ Result map[string]any }
	if json.NewDecoder(bytes.NewReader(data)).Decode(&message) != nil {
		return nil
	}
	return message.Result
}
