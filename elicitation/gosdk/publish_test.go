package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation/gosdk"
)

// A library is an upstream with prompts and resources that ask before they are served.
type library struct {
	*mcp.Server
	runs atomic.Int64
}

func newLibrary() *library {
	l := &library{Server: mcp.NewServer(impl, nil)}
	l.AddPrompt(&mcp.Prompt{Name: "review"}, l.getPrompt)
	l.AddResource(&mcp.Resource{Name: "plan", URI: "file:///plan"}, l.read)
	l.AddResourceTemplate(&mcp.ResourceTemplate{Name: "pages", URITemplate: "page:///{n}"}, l.read)
	return l
}

func (l *library) getPrompt(ctx context.Context,
	req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	l.runs.Add(1)
	reason, questions := askOrReturn(ctx, req.ProtocolVersion(), req.Session,
		req.Params.InputResponses, "why "+req.Params.Arguments["of"])
	if questions != nil {
		return &mcp.GetPromptResult{InputRequests: questions}, nil
	}
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
		{Role: "user", Content: &mcp.TextContent{Text: reason}}}}, nil
}

func (l *library) read(ctx context.Context,
	req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	l.runs.Add(1)
	if req.Params.URI == "page:///none" {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	reason, questions := askOrReturn(ctx, req.ProtocolVersion(), req.Session,
		req.Params.InputResponses, "why "+req.Params.URI)
	if questions != nil {
		return &mcp.ReadResourceResult{InputRequests: questions}, nil
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
		{URI: req.Params.URI, Text: reason}}}, nil
}

// askOrReturn asks for a reason in the way of the revision: it returns the answer, or the question
// that the result is to have.
func askOrReturn(ctx context.Context, revision string, session *mcp.ServerSession,
	answers mcp.InputResponseMap, message string) (string, mcp.InputRequestMap) {
	if revision < modern {
		return askReason(ctx, session, message), nil
	}
	if answer, ok := answers["why"].(*mcp.ElicitResult); ok {
		return fmt.Sprint(answer.Action, " ", answer.Content["reason"]), nil
	}
	return "", mcp.InputRequestMap{"why": &mcp.ElicitParams{Message: message,
		RequestedSchema: json.RawMessage(reasonSchema)}}
}

// serveLibrary returns a gateway before l over HTTP.
func serveLibrary(t *testing.T, l *library, revision string) *publishingGateway {
	t.Helper()
	g := &publishingGateway{rename: func(prompt string) string { return "library-" + prompt }}
	g.serve(t, l.listen(t, revision))
	return g
}

// listen serves the library over HTTP, and returns how to connect.
func (l *library) listen(t *testing.T, revision string) gosdk.UpstreamOptions {
	served := httptest.NewServer(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return l.Server },
		&mcp.StreamableHTTPOptions{Stateless: revision == modern}))
	t.Cleanup(served.Close)
	return gosdk.UpstreamOptions{Implementation: impl, ProtocolVersion: revision,
		Transport: func() mcp.Transport {
			return &mcp.StreamableClientTransport{Endpoint: served.URL}
		}}
}

func getPrompt(t *testing.T, session *mcp.ClientSession) string {
	t.Helper()
	got, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "library-review",
		Arguments: map[string]string{"of": "main.go"}})
	if err != nil {
		t.Fatal(err)
	}
	return got.Messages[0].Content.(*mcp.TextContent).Text
}

func readResource(t *testing.T, session *mcp.ClientSession, uri string) string {
	t.Helper()
	got, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		t.Fatal(err)
	}
	return got.Contents[0].Text
}

// Prompts and resources of an upstream of either era ask clients on each transport.
func TestPromptsAndResourcesAskClients(t *testing.T) {
	for _, upstream := range []string{legacy, modern} {
		l := newLibrary()
		g := serveLibrary(t, l, upstream)
		users := g.usersWithoutHTTP(t)
		users["HTTP"] = g.user(t, "ann")
		for name, session := range users {
			t.Run(upstream+" before "+name, func(t *testing.T) {
				before := l.runs.Load()
				for want, got := range map[string]string{
					"accept ann to why main.go":      getPrompt(t, session),
					"accept ann to why file:///plan": readResource(t, session, "file:///plan"),
					"accept ann to why page:///7":    readResource(t, session, "page:///7"),
				} {
					if got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				}
				// An upstream of 2026-07-28 is called again with the answer.
				want := map[string]int64{legacy: 3, modern: 6}[upstream]
				if n := l.runs.Load() - before; n != want {
					t.Errorf("the upstream ran %d times, want %d", n, want)
				}
			})
		}
	}
}

// A client reads the error of the upstream for a resource, code and all.
func TestErrorsOfResourcesArePassedOn(t *testing.T) {
	g := serveLibrary(t, newLibrary(), legacy)
	_, err := g.user(t, "ann").ReadResource(t.Context(),
		&mcp.ReadResourceParams{URI: "page:///none"})
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Message != "Resource not found" ||
		wire.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("got %v", err)
	}
}

// Prompts and resources that an upstream gets and loses later are the gateway's, too.
func TestChangesOfPromptsAndResourcesArePassedOn(t *testing.T) {
	l := newLibrary()
	g := serveLibrary(t, l, legacy)
	changed := make(chan struct{}, 100)
	user := mcp.NewClient(impl, &mcp.ClientOptions{
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) {
			changed <- struct{}{}
		},
		ResourceListChangedHandler: func(context.Context,
			*mcp.ResourceListChangedRequest) {
			changed <- struct{}{}
		},
	})
	session := g.connect(t, user, &mcp.StreamableClientTransport{Endpoint: g.url})
	waitUntilListed(t, session, changed, "library-review", "file:///plan", "page:///{n}")
	l.RemovePrompts("review")
	l.AddPrompt(&mcp.Prompt{Name: "write"}, l.getPrompt)
	waitUntilListed(t, session, changed, "library-write", "file:///plan", "page:///{n}")
	l.AddResource(&mcp.Resource{Name: "log", URI: "file:///log"}, l.read)
	l.RemoveResourceTemplates("page:///{n}")
	waitUntilListed(t, session, changed, "library-write", "file:///log", "file:///plan")
}

// waitUntilListed waits until the client finds these prompts, resources and templates.
func waitUntilListed(t *testing.T, session *mcp.ClientSession, changed <-chan struct{},
	want ...string) {
	t.Helper()
	for {
		var got []string
		for prompt, err := range session.Prompts(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, prompt.Name)
		}
		for resource, err := range session.Resources(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, resource.URI)
		}
		for template, err := range session.ResourceTemplates(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, template.URITemplate)
		}
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// An upstream cannot get the calls that are meant for another one.
func TestUpstreamsDoNotTakeEachOthersNames(t *testing.T) {
	good, evil := newLibrary(), newLibrary()
	g := serveLibrary(t, good, legacy)
	other, err := g.users.NewUpstream(evil.listen(t, legacy))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	err = errors.Join(other.PublishPrompts(t.Context(), g.server, g.rename),
		other.PublishResources(t.Context(), g.server))
	for _, want := range []string{`prompt "library-review": another upstream`,
		`resource "file:///plan": another`, `resource template "page:///{n}": another`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	session := g.user(t, "ann")
	getPrompt(t, session)
	readResource(t, session, "file:///plan")
	readResource(t, session, "page:///7")
	if good.runs.Load() != 3 || evil.runs.Load() != 0 {
		t.Errorf("the first upstream ran %d times, the other %d", good.runs.Load(),
			evil.runs.Load())
	}
}

func TestListsThatAreTooLongAreRefused(t *testing.T) {
	l := newLibrary()
	for i := range 10_001 {
		l.AddPrompt(&mcp.Prompt{Name: fmt.Sprint("p", i)}, l.getPrompt)
	}
	g := serveLibrary(t, newLibrary(), legacy)
	other, err := g.users.NewUpstream(l.listen(t, legacy))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	err = other.PublishPrompts(t.Context(), g.server, nil)
	if err == nil || !strings.Contains(err.Error(), "more than 10000 prompts") {
		t.Errorf("got %v", err)
	}
}
