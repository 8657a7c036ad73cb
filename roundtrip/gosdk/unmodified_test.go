//lint:file-ignore SA1019 logging is deprecated, and supported

package gosdk_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// listener is a client that keeps what it is told beside the result.
type listener struct {
	more chan struct{} // has room for one signal that said has grown

	mu   sync.Mutex
	said []string
}

func newListener() *listener { return &listener{more: make(chan struct{}, 1)} }

func (l *listener) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, text)
	select {
	case l.more <- struct{}{}:
	default: // the signal before has not been seen yet
	}
}

// heard reports whether the client was told something.
func (l *listener) heard(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.said, text)
}

// await waits until the client was told something.
func (l *listener) await(t *testing.T, text string) {
	t.Helper()
	for enough := within(t); !l.heard(text); {
		select {
		case <-l.more:
		case <-enough.Done():
			t.Fatalf("the client was not told %q", text)
		}
	}
}

func (l *listener) connect(t *testing.T, server *mcp.Server, revision string) *mcp.ClientSession {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	run(t, server, theirs)
	c := mcp.NewClient(&mcp.Implementation{Name: "listener", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult,
			error) {
			l.note("asked " + req.Params.Message)
			return &mcp.ElicitResult{Action: "accept",
				Content: map[string]any{"reason": "because"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context,
			req *mcp.ProgressNotificationClientRequest) {
			l.note("progress " + req.Params.Message)
		},
		LoggingMessageHandler: func(_ context.Context, req *mcp.LoggingMessageRequest) {
			l.note("log " + req.Params.Data.(string))
		},
	})
	session, err := c.Connect(within(t), ours, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// What an unmodified handler says besides its questions reaches the client.
func TestShadowsPassEverythingElseOn(t *testing.T) {
	var shown *mcp.ServerSession
	server := single(t, func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		shown = req.Session
		if p := req.Session.InitializeParams(); p.ProtocolVersion != legacy ||
			p.Capabilities.Elicitation == nil || p.ClientInfo.Name != "listener" {
			t.Errorf("the handler sees %+v", p)
		}
		err := req.Session.NotifyProgress(ctx,
			&mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(),
				Progress: 1, Message: "half"})
		_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Data: "careful"})
		_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "debug", Data: "chatter"})
		_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Data: "very careful"})
		if err != nil {
			return nil, err
		}
		answer, err := req.Session.Elicit(ctx, formQuestion())
		if err != nil {
			return nil, err
		}
		return toolText(answer.Content["reason"].(string)), nil
	}, withUnmodifiedHandlers())
	l := newListener()
	session := l.connect(t, server, modern)
	params := &mcp.CallToolParams{Name: "t",
		Meta: mcp.Meta{"progressToken": "p", "io.modelcontextprotocol/logLevel": "warning"}}
	result, err := session.CallTool(within(t), params)
	if err != nil || result.Content[0].(*mcp.TextContent).Text != "because" {
		t.Fatalf("got %+v, %v", result, err)
	}
	// The client's SDK handles notifications one after the other, and beside the result.
	for _, want := range []string{"asked Sure?", "progress half", "log careful",
		"log very careful"} {
		l.await(t, want)
	}
	if l.heard("log chatter") {
		t.Error("the client was told more than it asked for")
	}
	// Shadows are gone, and what is said over them goes nowhere.
	for s := range server.Sessions() {
		if s == shown {
			t.Error("the handler's session outlives the call")
		}
	}
	if _, err := shown.Elicit(within(t), formQuestion()); err == nil {
		t.Error("somebody answered after the call")
	}
}

// Handlers that ask with a context of their own are heard too.
func TestQuestionsWithAnotherContext(t *testing.T) {
	w := dialWire(t, single(t, func(_ context.Context, req *toolRequest) (*mcp.CallToolResult,
		error) {
		answer, err := req.Session.Elicit(context.Background(), formQuestion())
		if err != nil {
			return nil, err
		}
		return toolText(answer.Action), nil
	}, withUnmodifiedHandlers()))
	first := w.call("t", "")
	w.retry("t", first, declines(first.onlyKey())).wantText("decline")
}

// Handlers that return their questions work beside those that push them.
func TestReturnedBesideUnmodified(t *testing.T) {
	for _, revision := range []string{modern, legacy} {
		t.Run(revision, func(t *testing.T) {
			server := serverOf(t, returnedStyle(), withUnmodifiedHandlers())
			who := newPerson(t, map[string]string{"Which region?": `{"name":"eu"}`,
				"How big in eu?": `{"cores":8}`, "Sure?": `{"reason":"because"}`})
			if got, err := sdkOver(t, server, who, revision).do(within(t), "wizard"); err != nil ||
				got != "8 cores in eu: because" {
				t.Errorf("got %q, %v", got, err)
			}
			who.wantAsked(1)
		})
	}
}

// What the server tells its sessions reaches a client once, and not by way of
// a shadow again.
func TestShadowsPassNoBroadcasts(t *testing.T) {
	told := 0
	var server *mcp.Server
	server = single(t, func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		server.AddTool(&mcp.Tool{Name: "another", InputSchema: raw(`{"type":"object"}`)},
			asks(toolText("x")))
		time.Sleep(time.Second) // the SDK waits for more changes
		return toolText("done"), nil
	}, withUnmodifiedHandlers())
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := mcp.NewInMemoryTransports()
		served, err := server.Connect(t.Context(), wrapTransport(t, server, theirs), nil)
		if err != nil {
			t.Fatal(err)
		}
		c := mcp.NewClient(&mcp.Implementation{Name: "x", Version: "1"}, &mcp.ClientOptions{
			// The client listens for as long as there is a handler.
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { told++ },
		})
		session, err := c.Connect(t.Context(), ours,
			&mcp.ClientSessionOptions{ProtocolVersion: modern})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := (sdkPeer{session}).do(t.Context(), "t"); err != nil || got != "done" {
			t.Errorf("got %q, %v", got, err)
		}
		_ = session.Close()
		_ = served.Wait()
	})
	if told != 1 {
		t.Errorf("the client was told %d times", told)
	}
}
