package natsguard_test

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

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

type consent struct {
	Reason string `json:"reason"`
}

// A fleet is two servers with one key and one bucket, each with a connection of
// its own, behind a client that sends every request to the other one.
type fleet struct {
	base     http.RoundTripper
	hosts    []string
	requests atomic.Int32
	last     atomic.Pointer[sent]
	charges  atomic.Int32
}

// sent is a request as it went over the wire.
type sent struct {
	header http.Header
	body   []byte
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	f := &fleet{base: transport}
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	for range 2 {
		js := natstest.Connect(t, url)
		store, err := natsguard.NewStateStore(t.Context(), js, nil)
		if err != nil {
			t.Fatal(err)
		}
		opts := roundtrip.Options{
			RequireSharedKey: true, Guard: newGuard(t, js, nil), StateStore: store,
		}
		charge := func() (int, error) { return int(f.charges.Add(1)), nil }
		handler, err := newTill(opts, charge)
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(handler)
		t.Cleanup(web.Close)
		f.hosts = append(f.hosts, strings.TrimPrefix(web.URL, "http://"))
	}
	return f
}

// newTill serves a tool that charges and one that has much to remember. All
// tills have the same key.
func newTill(opts roundtrip.Options, charge func() (int, error)) (http.Handler, error) {
	key, err := keys.NewKey("k1", bytes.Repeat([]byte{7}, 32))
	if err != nil {
		return nil, err
	}
	if opts.Sealer, err = keys.NewKeyring(key); err != nil {
		return nil, err
	}
	srv, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "till", Version: "1.0.0"}, Roundtrip: opts,
	})
	if err != nil {
		return nil, err
	}
	tool := server.Tool{Name: "charge", Description: "Charges once."}
	server.AddTool(srv, tool, func(
		ctx context.Context, _ *server.ToolCall, _ struct{},
	) (protocol.CallToolOutcome, error) {
		if _, ok := roundtrip.AcceptedContent[consent](ctx, "consent"); !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[consent]("consent",
				"Charge the card?")), nil
		}
		n, err := charge()
		if err != nil {
			return nil, err
		}
		return server.Text(fmt.Sprint("charge ", n)), nil
	})
	server.AddTool(srv, server.Tool{Name: "hoard", Description: "Has much to remember."}, hoard)
	return serverhttp.New(srv, nil)
}

// hoard keeps more between its rounds than fits into a request.
func hoard(ctx context.Context, _ *server.ToolCall, _ struct{}) (protocol.CallToolOutcome, error) {
	if _, ok := roundtrip.AcceptedContent[consent](ctx, "consent"); !ok {
		const much = 600 << 10
		return roundtrip.InputRequired(
			roundtrip.Elicit[consent]("consent", "Go on?"),
			roundtrip.WithState(strings.Repeat("x", much)),
		), nil
	}
	kept, ok := roundtrip.State[string](ctx)
	return server.Text(fmt.Sprint(len(kept)>>10, " KiB ", ok)), nil
}

// RoundTrip sends a request to the next host and keeps a copy.
func (f *fleet) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	f.last.Store(&sent{req.Header.Clone(), body})
	return f.send(req.Context(), req.Header, body)
}

func (f *fleet) send(ctx context.Context, header http.Header, body []byte) (*http.Response, error) {
	host := f.hosts[int(f.requests.Add(1))%len(f.hosts)]
	url := "http://" + host + "/"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone()
	return f.base.RoundTrip(req)
}

// replay sends the last request again and returns the text of its result, or
// the code of its error.
func (f *fleet) replay(t *testing.T) string {
	t.Helper()
	last := f.last.Load()
	resp, err := f.send(t.Context(), last.header, last.body)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	var reply struct {
		Result struct {
			Content []struct{ Text string }
		}
		Error *protocol.Error
	}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		t.Error(err)
		return ""
	}
	if reply.Error != nil {
		return fmt.Sprint(reply.Error.Code)
	}
	if len(reply.Result.Content) != 1 {
		return "nothing"
	}
	return reply.Result.Content[0].Text
}

// client returns a client that sends each request to the next host.
func (f *fleet) client(t *testing.T, via http.RoundTripper) *client.Client {
	t.Helper()
	opts := &clienthttp.Options{HTTPClient: &http.Client{Transport: via}}
	transport, err := clienthttp.New("http://127.0.0.1:1/", opts)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(transport, &client.Options{
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(consent{"rent"})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// finalLeg takes a flow up to its last leg, which it keeps and does not send.
func (f *fleet) finalLeg(t *testing.T) {
	t.Helper()
	c := f.client(t, &stopper{f})
	if _, err := c.CallTool(t.Context(), "charge", nil); err == nil {
		t.Fatal("the last leg was sent")
	}
	if !bytes.Contains(f.last.Load().body, []byte("inputResponses")) {
		t.Fatalf("the last leg is %s", f.last.Load().body)
	}
}

// stopper keeps the leg with the answers from being sent.
type stopper struct{ fleet *fleet }

func (s *stopper) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(body, []byte("inputResponses")) {
		s.fleet.last.Store(&sent{req.Header.Clone(), body})
		return nil, io.ErrUnexpectedEOF
	}
	return s.fleet.send(req.Context(), req.Header, body)
}

// TestFleetChargesOnce sends the final leg of a flow a hundred times at once
// to both servers.
func TestFleetChargesOnce(t *testing.T) {
	f := newFleet(t)
	f.finalLeg(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for range 100 {
		wg.Go(func() {
			reply := f.replay(t)
			mu.Lock()
			defer mu.Unlock()
			got[reply]++
		})
	}
	wg.Wait()
	if n := f.charges.Load(); n != 1 {
		t.Errorf("charged %d times", n)
	}
	if got["charge 1"] < 1 || got["charge 1"]+got["23223"] != 100 {
		t.Errorf("replies: %v", got)
	}
	for range 4 { // both of them, afterwards
		if got := f.replay(t); got != "charge 1" {
			t.Errorf("a replay afterwards gets %q", got)
		}
	}
	t.Logf("replies: %v", got)
}

// TestFleetChargesWhoAsks has many flows at once, none of which gets in the
// way of another.
func TestFleetChargesWhoAsks(t *testing.T) {
	f := newFleet(t)
	var wg sync.WaitGroup
	for range 20 {
		c := f.client(t, f)
		wg.Go(func() {
			if _, err := c.CallTool(t.Context(), "charge", nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := f.charges.Load(); n != 20 {
		t.Errorf("charged %d times for 20 flows", n)
	}
}

// TestFleetKeepsLargeStates on the servers: the client carries a handle, which
// the other replica can open.
func TestFleetKeepsLargeStates(t *testing.T) {
	f := newFleet(t)
	result, err := f.client(t, f).CallTool(t.Context(), "hoard", nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := result.Content[0].(*protocol.TextContent); !ok || text.Text != "600 KiB true" {
		t.Errorf("got %+v", result.Content)
	}
	if n := len(f.last.Load().body); n > 4<<10 {
		t.Errorf("the client sent %d bytes", n)
	}
}

// TestFleetWithoutNATS refuses the final leg, runs nothing, and goes on
// serving what needs no guard.
func TestFleetWithoutNATS(t *testing.T) {
	srv := natstest.Start(t, t.TempDir(), 0)
	opts := &natsguard.Options{Timeout: natstest.Patience / 100}
	g := newGuard(t, natstest.Connect(t, srv.ClientURL()), opts)
	funnel, err := roundtrip.NewFunnel(&roundtrip.Options{Guard: g})
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	handler := func(ctx context.Context) (protocol.Result, error) {
		if _, ok := roundtrip.AcceptedContent[consent](ctx, "consent"); !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[consent]("consent", "Charge?")), nil
		}
		runs++
		return server.Text("charged"), nil
	}
	call := roundtrip.Call{
		Version: protocol.Latest, Method: protocol.MethodCallTool, Target: "charge",
		Capabilities: protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true},
		},
	}
	natstest.Stop(srv)
	first, err := funnel.Do(t.Context(), call, handler)
	if err != nil {
		t.Fatalf("a first leg needs the guard: %v", err)
	}
	call.State = first.(*protocol.InputRequiredResult).RequestState
	accept := json.RawMessage(`{"action":"accept","content":{"reason":"rent"}}`)
	call.Responses = protocol.InputResponses{{Key: "consent", Result: accept}}
	if _, err := funnel.Do(t.Context(), call, handler); err == nil || runs != 0 {
		t.Errorf("got %v after %d runs, want a refusal", err, runs)
	}
}
