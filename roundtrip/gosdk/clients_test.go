//lint:file-ignore SA1019 sampling and roots are deprecated, but supported, so they are tested

package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

// patience bounds whatever should take milliseconds.
const patience = 20 * time.Second

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A person sits behind a client and answers, by the text of the question: the
// JSON of a form, "{}" for a visit, "decline" or "cancel"; what the model says;
// and for "roots" the directories.
type person struct {
	t       testing.TB
	answers map[string]string

	mu    sync.Mutex
	asked map[string]int
}

func newPerson(t testing.TB, answers map[string]string) *person {
	return &person{t: t, answers: answers, asked: map[string]int{}}
}

func (p *person) answer(question string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[question]++
	answer, ok := p.answers[question]
	if !ok {
		p.t.Errorf("the person is asked %q", question)
	}
	return answer
}

func (p *person) elicit(question string) (string, map[string]any) {
	answer := p.answer(question)
	switch answer {
	case "decline", "cancel":
		return answer, nil
	case "{}", "":
		return "accept", nil
	}
	var content map[string]any
	if err := json.Unmarshal([]byte(answer), &content); err != nil {
		p.t.Errorf("answer to %q: %v", question, err)
	}
	return "accept", content
}

// wantAsked checks that every question was put n times.
func (p *person) wantAsked(n int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for question := range p.answers {
		if p.asked[question] != n {
			p.t.Errorf("%q was asked %d times, want %d", question, p.asked[question], n)
		}
	}
}

// A peer is a client: it does one request and says what came of it.
type peer interface {
	do(ctx context.Context, target string) (string, error)
}

// A route is a client's way to a server.
type route struct {
	name     string
	revision string
	open     func(t *testing.T, server *mcp.Server, who *person, mute bool) (peer,
		*wiretest.Recorder)
}

func routes() []route {
	var all []route
	for _, revision := range []string{modern, legacy} {
		all = append(all,
			route{"sdk/http/" + revision, revision,
				func(t *testing.T, server *mcp.Server, who *person,
					mute bool) (peer, *wiretest.Recorder) {
					endpoint, recorder := serve(t, handlerOf(t, server, nil))
					return dialSDK(t, who, mute, revision,
						&mcp.StreamableClientTransport{Endpoint: endpoint,
							HTTPClient: &http.Client{Transport: recorder}}), recorder
				}},
			route{"sdk/memory/" + revision, revision,
				func(t *testing.T, server *mcp.Server, who *person,
					mute bool) (peer, *wiretest.Recorder) {
					ours, theirs := mcp.NewInMemoryTransports()
					run(t, server, theirs)
					return dialSDK(t, who, mute, revision, ours), nil
				}},
			route{"rondo/http/" + revision, revision,
				func(t *testing.T, server *mcp.Server, who *person,
					mute bool) (peer, *wiretest.Recorder) {
					endpoint, recorder := serve(t, handlerOf(t, server, nil))
					transport, err := clienthttp.New(endpoint,
						&clienthttp.Options{HTTPClient: &http.Client{Transport: recorder}})
					if err != nil {
						t.Fatal(err)
					}
					return dialRondo(t, who, mute, revision, transport), recorder
				}},
			route{"rondo/stdio/" + revision, revision,
				func(t *testing.T, server *mcp.Server, who *person,
					mute bool) (peer, *wiretest.Recorder) {
					r1, w1 := io.Pipe()
					r2, w2 := io.Pipe()
					t.Cleanup(func() { _ = w1.Close(); _ = w2.Close() })
					run(t, server, &mcp.IOTransport{Reader: r1, Writer: w2})
					return dialRondo(t, who, mute, revision,
							client.NewStream(r2, w1,
								&client.StreamOptions{ProbeTimeout: patience})),
						nil
				}},
		)
	}
	return all
}

// serve serves a handler on loopback, and returns a recorder to call it with.
func serve(t testing.TB, h http.Handler) (endpoint string, recorder *wiretest.Recorder) {
	t.Helper()
	s := httptest.NewServer(h)
	own := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(func() { own.CloseIdleConnections(); s.CloseClientConnections(); s.Close() })
	return s.URL, &wiretest.Recorder{Base: own}
}

// run connects a server and waits for it at the end of the test.
func run(t testing.TB, server *mcp.Server, transport mcp.Transport) {
	t.Helper()
	session, err := server.Connect(t.Context(), wrapTransport(t, server, transport), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
}

type sdkPeer struct{ *mcp.ClientSession }

func dialSDK(t testing.TB, who *person, mute bool, revision string, transport mcp.Transport) peer {
	t.Helper()
	opts := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	if !mute {
		opts = &mcp.ClientOptions{
			Capabilities: &mcp.ClientCapabilities{
				RootsV2: &mcp.RootCapabilities{},
				Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{},
					URL: &mcp.URLElicitationCapabilities{}},
			},
			ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult,
				error) {
				action, content := who.elicit(req.Params.Message)
				return &mcp.ElicitResult{Action: action, Content: content}, nil
			},
			CreateMessageHandler: func(_ context.Context,
				req *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
				text := who.answer(req.Params.Messages[0].Content.(*mcp.TextContent).Text)
				return &mcp.CreateMessageResult{Role: "assistant", Model: "model-1",
					Content: &mcp.TextContent{Text: text}}, nil
			},
		}
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1.0.0"}, opts)
	if roots := who.answers["roots"]; roots != "" { // kept by the client, which asks nobody
		who.answers = without(who.answers, "roots")
		for _, uri := range strings.Fields(roots) {
			c.AddRoots(&mcp.Root{URI: uri})
		}
	}
	session, err := c.Connect(within(t), transport,
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return sdkPeer{session}
}

func without(m map[string]string, key string) map[string]string {
	c := map[string]string{}
	for k, v := range m {
		if k != key {
			c[k] = v
		}
	}
	return c
}

func (p sdkPeer) do(ctx context.Context, target string) (string, error) {
	switch {
	case target == "brief":
		result, err := p.GetPrompt(ctx,
			&mcp.GetPromptParams{Name: target, Arguments: map[string]string{"topic": "rondos"}})
		if err != nil {
			return "", err
		}
		return result.Messages[0].Content.(*mcp.TextContent).Text, nil
	case strings.HasPrefix(target, "vault:"):
		result, err := p.ReadResource(ctx, &mcp.ReadResourceParams{URI: target})
		if err != nil {
			return "", err
		}
		return result.Contents[0].Text, nil
	}
	result, err := p.CallTool(ctx,
		&mcp.CallToolParams{Name: target, Arguments: map[string]any{"env": "prod"}})
	if err != nil {
		return "", err
	}
	if len(result.Content) == 0 {
		return "", fmt.Errorf("the result is empty: %+v", result)
	}
	text := result.Content[0].(*mcp.TextContent).Text
	if result.IsError {
		text = "error: " + text
	}
	return text, nil
}

type rondoPeer struct{ *client.Client }

func dialRondo(t testing.TB, who *person, mute bool, revision string,
	transport protocol.Peer) peer {
	opts := &client.Options{Timeout: patience}
	if revision == legacy {
		opts.Era = protocol.Legacy
	}
	if !mute {
		elicit := func(message string) (*protocol.ElicitResult, error) {
			switch action, content := who.elicit(message); action {
			case "decline":
				return client.Decline(), nil
			case "cancel":
				return client.Cancel(), nil
			default:
				return client.Accept(content)
			}
		}
		opts.ElicitForm = func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			return elicit(q.Message)
		}
		opts.ElicitURL = func(_ context.Context, q *client.URLQuestion) (*protocol.ElicitResult,
			error) {
			return elicit(q.Message)
		}
		opts.CreateMessage = func(_ context.Context,
			q *client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			text := who.answer(q.Request.Messages[0].Content[0].(*protocol.TextContent).Text)
			return &protocol.CreateMessageResult{Role: protocol.Assistant, Model: "model-1",
				Content: []protocol.Content{&protocol.TextContent{Text: text}}}, nil
		}
		opts.ListRoots = func(context.Context, *client.RootsQuestion) (roots []protocol.Root,
			_ error) {
			for _, uri := range strings.Fields(who.answer("roots")) {
				roots = append(roots, protocol.Root{URI: uri})
			}
			return roots, nil
		}
	}
	c, err := client.New(transport, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return rondoPeer{c}
}

func (p rondoPeer) do(ctx context.Context, target string) (string, error) {
	text := func(c protocol.Content) string { return c.(*protocol.TextContent).Text }
	switch {
	case target == "brief":
		result, err := p.GetPrompt(ctx, target, map[string]string{"topic": "rondos"})
		if err != nil {
			return "", err
		}
		return text(result.Messages[0].Content), nil
	case strings.HasPrefix(target, "vault:"):
		result, err := p.ReadResource(ctx, target)
		if err != nil {
			return "", err
		}
		return result.Contents[0].Text, nil
	}
	result, err := p.CallTool(ctx, target, map[string]string{"env": "prod"})
	if err != nil {
		return "", err
	}
	if result.IsError {
		return "error: " + text(result.Content[0]), nil
	}
	return text(result.Content[0]), nil
}
