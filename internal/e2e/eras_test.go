package e2e_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// TestErasGiveTheSame takes every kind of flow through both eras over HTTP answered as JSON, HTTP
// answered as events, and a line stream. The handlers are the same, the person is the same, and so
// must be what comes of it; what is said on the way is held against the published schema of the
// revision in force, and may hold nothing of the other era.
func TestErasGiveTheSame(t *testing.T) {
	ways := []struct {
		name string
		open func(t *testing.T, srv *server.Server, opts client.Options) (*client.Client,
			func() []wiretest.Message)
		mw []server.Middleware
	}{
		{"json", eraOverHTTP, nil},
		{"events", eraOverHTTP, []server.Middleware{reportProgress}},
		{"lines", eraOverLines, nil},
	}
	for _, f := range flows() {
		for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
			for _, way := range ways {
				t.Run(f.name+"/"+era.String()+"/"+way.name, func(t *testing.T) {
					srv, _ := mustServe(t, &server.Options{Middleware: way.mw})
					opts := f.person.options()
					opts.Era = era
					opts.ElicitForm = func(_ context.Context,
						q *client.FormQuestion) (*protocol.ElicitResult, error) {
						return f.person.answer(keyOf(t, q.Message))
					}
					opts.ElicitURL = func(_ context.Context,
						q *client.URLQuestion) (*protocol.ElicitResult, error) {
						return f.person.answer(keyOf(t, q.Message))
					}
					if way.mw != nil {
						// asks for progress with every request
						opts.Progress = func(context.Context, *protocol.Progress) {}
					}
					c, said := way.open(t, srv, *opts)
					got, err := f.call(within(t, patience), c)
					if err != nil || got != f.want {
						t.Fatalf("got %q, %v, want %q", got, err, f.want)
					}
					spoken := protocol.V20251125
					if era == protocol.Modern {
						spoken = protocol.V20260728
					}
					if got := c.Negotiated(); era == protocol.Legacy && got != spoken {
						t.Errorf("spoke %q, want %q", got, spoken)
					}
					messages := said()
					if len(messages) == 0 {
						t.Fatal("nothing was recorded")
					}
					wiretest.Conform(t, string(spoken), messages)
					checkEra(t, era, messages)
				})
			}
		}
	}
}

// keyOf tells which question is asked by its text, which is all that a person sees: older revisions
// have no keys.
func keyOf(t *testing.T, message string) string {
	for start, key := range map[string]string{
		"Deploy to": "confirm", "Sure?": "confirm", "Fail?": "confirm", "Open": "confirm",
		"Which region?": "region",
		"How big":       "size", "Who": "contact", "Sign in": "login",
	} {
		if strings.HasPrefix(message, start) {
			return key
		}
	}
	t.Errorf("asked %q", message)
	return ""
}

// checkEra looks for what belongs to the other era only.
func checkEra(t *testing.T, era protocol.Era, messages []wiretest.Message) {
	t.Helper()
	foreign := []string{`"input_required"`, `"resultType"`, `"requestState"`, `"inputResponses"`,
		`"io.modelcontextprotocol/`, `"cacheScope"`}
	if era == protocol.Modern {
		foreign = []string{`"method":"initialize"`, `"elicitationId"`, `-32042`}
	}
	for _, m := range messages {
		for _, text := range foreign {
			if bytes.Contains([]byte(m.Body), []byte(text)) {
				t.Errorf("%s in a %s message of the %s: %s", text, era, m.From, m.Body)
			}
		}
		request, err := protocol.DecodeMessage([]byte(m.Body))
		if _, asks := request.(*protocol.Request); err == nil && asks && era == protocol.Modern &&
			m.From == wiretest.Server {
			t.Errorf("a modern server sent a request: %s", m.Body)
		}
	}
}

func eraOverHTTP(t *testing.T, srv *server.Server,
	opts client.Options) (*client.Client, func() []wiretest.Message) {
	recorder := &wiretest.Recorder{Base: transport(t)}
	url := listen(t, servertest.NewHandler(t, srv, nil))
	peer, err := clienthttp.New(url,
		&clienthttp.Options{HTTPClient: &http.Client{Transport: recorder}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(peer, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, recorder.Messages
}

func eraOverLines(t *testing.T, srv *server.Server,
	opts client.Options) (*client.Client, func() []wiretest.Message) {
	serverIn, clientOut := io.Pipe()
	clientIn, serverOut := io.Pipe()
	var log wiretest.Log
	over := make(chan error, 1)
	go func() {
		over <- srv.ServeStream(context.Background(),
			io.TeeReader(serverIn, log.Lines(wiretest.Client, io.Discard)),
			log.Lines(wiretest.Server, serverOut), nil)
	}()
	c, err := client.New(client.NewStream(clientIn, clientOut, nil), &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = clientOut.Close()
		if err := <-over; err != nil {
			t.Errorf("the server ended with %v", err)
		}
		_ = clientIn.Close()
	})
	return c, log.Messages
}
