package e2e_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// revision is the one that is spoken here.
const revision = "2026-07-28"

// patience bounds whatever should take milliseconds.
const patience = 5 * time.Second

// A route is a way from a client to the subject. open returns the client and what is said on the
// way so far.
type route struct {
	name string
	open func(t *testing.T, opts *client.Options) (*client.Client, func() []wiretest.Message)
}

func routes() []route {
	return []route{{"http", openHTTP}, {"events", openEvents}, {"in process", openInProcess}}
}

func openHTTP(t *testing.T, opts *client.Options) (*client.Client, func() []wiretest.Message) {
	srv, _ := mustServe(t, nil)
	return dial(t, listen(t, servertest.NewHandler(t, srv, nil)), opts)
}

// openEvents is HTTP with a server that reports progress, so that responses are event streams.
func openEvents(t *testing.T, opts *client.Options) (*client.Client, func() []wiretest.Message) {
	srv, _ := mustServe(t, &server.Options{Middleware: []server.Middleware{reportProgress}})
	watched := *opts
	// asks for progress with every request
	watched.Progress = func(context.Context, *protocol.Progress) {}
	return dial(t, listen(t, servertest.NewHandler(t, srv, nil)), &watched)
}

// reportProgress reports that a request has begun and that it has ended, where the client wants to
// know.
func reportProgress(next server.Handler) server.Handler {
	return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
		if request.Meta.ProgressToken.IsZero() {
			return next(ctx, request)
		}
		report := func(done float64) error {
			params, err := jsonx.Marshal(&protocol.Progress{Token: request.Meta.ProgressToken,
				Progress: done})
			if err != nil {
				return err
			}
			return request.Notify(ctx, &protocol.Notification{Method: protocol.NotifyProgress,
				Params: params})
		}
		if err := report(0.5); err != nil {
			return nil, err
		}
		result, err := next(ctx, request)
		if err := report(1); err != nil {
			return nil, err
		}
		return result, err
	}
}

func openInProcess(t *testing.T, opts *client.Options) (*client.Client, func() []wiretest.Message) {
	srv, _ := mustServe(t, nil)
	peer := &recordedPeer{Peer: srv, t: t}
	c, err := client.New(peer, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, peer.log.Messages
}

// recordedPeer writes down what an in-process peer hears and says.
type recordedPeer struct {
	protocol.Peer
	t   testing.TB
	log wiretest.Log
}

func (p *recordedPeer) Handle(ctx context.Context, req *protocol.Request,
	back protocol.Back) (*protocol.Response, error) {
	p.add(wiretest.Client, req)
	resp, err := p.Peer.Handle(ctx, req, back)
	if err == nil {
		p.add(wiretest.Server, resp)
	}
	return resp, err
}

func (p *recordedPeer) add(from wiretest.From, m protocol.Message) {
	text, err := protocol.AppendMessage(nil, m)
	if err != nil {
		p.t.Errorf("message of the %s: %v", from, err)
	}
	p.log.Add(from, text)
}

// listen serves a handler on loopback until the end of the test.
func listen(t testing.TB, handler http.Handler) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL + "/mcp"
}

// dial returns a client to url and what is said on the wire so far.
func dial(t testing.TB, url string,
	opts *client.Options) (*client.Client, func() []wiretest.Message) {
	t.Helper()
	recorder := &wiretest.Recorder{Base: transport(t)}
	return connect(t, url, &clienthttp.Options{HTTPClient: &http.Client{Transport: recorder}},
		opts), recorder.Messages
}

func connect(t testing.TB, url string, via *clienthttp.Options,
	opts *client.Options) *client.Client {
	t.Helper()
	peer, err := clienthttp.New(url, via)
	if err != nil {
		t.Fatal(err)
	}
	// Calls are what is looked at here, not how it is found out what they may be.
	modern := client.Options{}
	if opts != nil {
		modern = *opts
	}
	modern.Era = protocol.Modern
	c, err := client.New(peer, &modern)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// transport returns an HTTP transport of the test's own, so that its connections end with it.
func transport(t testing.TB) *http.Transport {
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.Proxy = nil
	own.MaxIdleConnsPerHost = 64
	t.Cleanup(own.CloseIdleConnections)
	return own
}

// within bounds a test's calls.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// A person answers by key: with the JSON of a form, or with "decline" or "cancel". Forms without an
// entry are cancelled.
type person map[string]string

// options returns a client that can answer every kind of question, forms and URLs as the person
// does.
func (p person) options() *client.Options {
	return &client.Options{
		Info: protocol.Implementation{Name: "e2e", Version: "1.0.0"},
		ElicitForm: func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			return p.answer(q.Key)
		},
		ElicitURL: func(_ context.Context, q *client.URLQuestion) (*protocol.ElicitResult,
			error) {
			return p.answer(q.Key)
		},
		CreateMessage: func(context.Context,
			*client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			return &protocol.CreateMessageResult{Role: protocol.Assistant, Model: "model-1",
				StopReason: "endTurn",
				Content:    []protocol.Content{&protocol.TextContent{Text: "It is short."}}}, nil
		},
		ListRoots: func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
			return []protocol.Root{{URI: "file:///src", Name: "src"}, {URI: "file:///doc"}}, nil
		},
	}
}

func (p person) answer(key string) (*protocol.ElicitResult, error) {
	switch text := p[key]; text {
	case "decline":
		return client.Decline(), nil
	case "cancel", "":
		return client.Cancel(), nil
	default:
		return client.Accept(raw(text))
	}
}

var _ event.Observer = (*watch)(nil)
