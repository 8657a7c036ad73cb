//lint:file-ignore SA1019 sampling and roots are deprecated, and supported for as long as they are

package gosdk_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// failedPushes counts the events of questions that nobody answered.
func (o *observer) failedPushes(tolerated bool) int {
	return o.count(func(e event.Event) bool {
		failed, ok := e.(event.PushFailed)
		return ok && failed.Tolerated == tolerated
	})
}

// reached says how a call of "t" came out: the text, or the code of the error.
func reached(t *testing.T, p peer) string {
	t.Helper()
	got, err := p.do(within(t), "t")
	if err != nil {
		return "failed: " + err.Error()
	}
	return got
}

func isRefusal(got string) bool {
	return strings.HasPrefix(got, "error: ") || strings.HasPrefix(got, "failed: ")
}

// openBlind is a client of an older revision that answers each question with an error.
func openBlind(t *testing.T, transport mcp.Transport) peer {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "x", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("no eyes")
		},
	})
	session, err := c.Connect(within(t), transport,
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return sdkPeer{session}
}

// TestSwallowedRefusals: a handler that drops the error of a question which its
// client cannot be asked does not get to say that it went on, by whatever way the
// client came, and one that says so does.
func TestSwallowedRefusals(t *testing.T) {
	type options = []roundtrip.QuestionOption
	asks := map[string]func(context.Context, *mcp.ServerSession, options) error{
		"Elicit": func(ctx context.Context, session *mcp.ServerSession, opts options) error {
			_, err := gosdk.Elicit(ctx, session, formQuestion(), opts...)
			return err
		},
		"CreateMessage": func(ctx context.Context, session *mcp.ServerSession,
			opts options) error {
			_, err := gosdk.CreateMessage(ctx, session, &mcp.CreateMessageParams{MaxTokens: 1,
				Messages: []*mcp.SamplingMessage{}}, opts...)
			return err
		},
		"CreateMessageWithTools": func(ctx context.Context, session *mcp.ServerSession,
			opts options) error {
			_, err := gosdk.CreateMessageWithTools(ctx, session,
				&mcp.CreateMessageWithToolsParams{MaxTokens: 1,
					Messages: []*mcp.SamplingMessageV2{}}, opts...)
			return err
		},
		"ListRoots": func(ctx context.Context, session *mcp.ServerSession, opts options) error {
			_, err := gosdk.ListRoots(ctx, session, &mcp.ListRootsParams{}, opts...)
			return err
		},
	}
	for name, ask := range asks {
		for i, r := range append(routes(), routes()...) {
			optional := i >= len(routes())
			t.Run(fmt.Sprint(name, "/", r.name, "/optional ", optional), func(t *testing.T) {
				seen := &observer{}
				server := single(t, func(ctx context.Context,
					req *toolRequest) (*mcp.CallToolResult, error) {
					if roundtrip.CanAsk(ctx, protocol.KindElicitForm) {
						t.Error("CanAsk says that the client can be asked")
					}
					var opts options
					if optional {
						opts = options{roundtrip.IfPossible()}
					}
					err := ask(ctx, req.Session, opts)
					if _, cannot := errors.AsType[*roundtrip.PushError](err); cannot != optional {
						t.Errorf("got %v", err)
					}
					return toolText("DELETED"), nil
				}, withFunnel(roundtrip.Options{Observer: seen}))
				p, _ := r.open(t, server, newPerson(t, nil), true)
				got := reached(t, p)
				if optional {
					if got != "DELETED" || seen.failedPushes(true) != 1 {
						t.Errorf("got %q, events %v", got, seen.all())
					}
				} else if !isRefusal(got) || strings.Contains(got, "DELETED") {
					t.Errorf("got %q, want a refusal", got)
				}
			})
		}
	}
}

// TestUnmodifiedWithoutCapability: a handler that was not changed gets what the
// SDK tells it, and does what it does without the adapter; with the option its
// call is refused.
func TestUnmodifiedWithoutCapability(t *testing.T) {
	asks := map[string]func(ctx context.Context, session *mcp.ServerSession) error{
		"elicit": func(ctx context.Context, session *mcp.ServerSession) error {
			_, err := session.Elicit(ctx, formQuestion())
			return err
		},
		"sample": func(ctx context.Context, session *mcp.ServerSession) error {
			_, err := session.CreateMessage(ctx,
				&mcp.CreateMessageParams{MaxTokens: 1, Messages: []*mcp.SamplingMessage{}})
			return err
		},
	}
	for name, ask := range asks {
		for _, must := range []bool{false, true} {
			for _, swallow := range []bool{false, true} {
				for _, r := range routes() {
					t.Run(name+"/"+r.name, func(t *testing.T) {
						seen := &observer{}
						options := []option{withUnmodifiedHandlers(),
							withFunnel(roundtrip.Options{Observer: seen})}
						if must {
							options = append(options, withMustAsk())
						}
						server := single(t, func(ctx context.Context,
							req *toolRequest) (*mcp.CallToolResult, error) {
							err := ask(ctx, req.Session)
							if err == nil {
								t.Error("somebody answered")
							}
							if !swallow {
								return nil, err
							}
							return toolText("fell back"), nil
						}, options...)
						p, _ := r.open(t, server, newPerson(t, nil), true)
						got := reached(t, p)
						if fellBack := got == "fell back"; fellBack != (swallow && !must) ||
							!fellBack && !isRefusal(got) {
							t.Errorf("must ask %v, swallow %v: got %q", must, swallow, got)
						}
						want := 1
						// which nobody but the handler is told
						if must || name == "elicit" && swallow {
							want = 0
						}
						if n := seen.failedPushes(true); n != want {
							t.Errorf("must ask %v, swallow %v: %d tolerated, want %d: %v", must,
								swallow, n, want, seen.all())
						}
					})
				}
			}
		}
	}
}

// TestUnmodifiedWithMustAsk: who can be asked is, in both eras.
func TestUnmodifiedWithMustAsk(t *testing.T) {
	for _, r := range routes() {
		t.Run(r.name, func(t *testing.T) {
			server := single(t, func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult,
				error) {
				answer, err := req.Session.Elicit(ctx, formQuestion())
				if err != nil {
					return nil, err
				}
				return toolText(answer.Action), nil
			}, withUnmodifiedHandlers(), withMustAsk())
			who := newPerson(t, map[string]string{"Sure?": `{"reason":"because"}`})
			p, _ := r.open(t, server, who, false)
			if got := reached(t, p); got != "accept" {
				t.Errorf("got %q", got)
			}
			who.wantAsked(1)
		})
	}
}

// TestUnmodifiedFailedPushes: toward an older client that can be asked, a
// question that fails ends the call although the handler drops the error.
func TestUnmodifiedFailedPushes(t *testing.T) {
	seen := &observer{}
	server := single(t, func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		_, _ = req.Session.Elicit(ctx, formQuestion())
		return toolText("DELETED"), nil
	}, withUnmodifiedHandlers(), withFunnel(roundtrip.Options{Observer: seen}))
	ours, theirs := mcp.NewInMemoryTransports()
	run(t, server, theirs)
	if got := reached(t, openBlind(t, ours)); !strings.HasPrefix(got,
		"error: the client could not ") {
		t.Errorf("got %q", got)
	}
	if seen.failedPushes(false) != 1 {
		t.Errorf("events %v", seen.all())
	}
}

// A handler that fails because its client answered a question with an error says so in its own
// words, the same as without the adapter.
func TestUnmodifiedHandlersSayInTheirWordsThatAQuestionFailed(t *testing.T) {
	tools := map[string]mcp.ToolHandler{
		"error result": func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			if _, err := req.Session.Elicit(ctx, formQuestion()); err != nil {
				result := toolText("not confirmed: " + err.Error())
				result.IsError = true
				return result, nil
			}
			return toolText("DELETED"), nil
		},
		"error": func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			if _, err := req.Session.Elicit(ctx, formQuestion()); err != nil {
				return nil, &jsonrpc.Error{Code: 7, Message: "not confirmed: " + err.Error()}
			}
			return toolText("DELETED"), nil
		},
	}
	for name, tool := range tools {
		t.Run(name, func(t *testing.T) {
			var texts []string
			for _, adapted := range []bool{false, true} {
				ours, theirs := mcp.NewInMemoryTransports()
				if adapted {
					run(t, single(t, tool, withUnmodifiedHandlers()), theirs)
				} else {
					server := mcp.NewServer(
						&mcp.Implementation{Name: "single", Version: "1.0.0"}, nil)
					server.AddTool(&mcp.Tool{Name: "t", InputSchema: raw(`{"type":"object"}`)},
						tool)
					connectRaw(t, server, theirs)
				}
				texts = append(texts, reached(t, openBlind(t, ours)))
			}
			if texts[0] != texts[1] || !strings.Contains(texts[0], "not confirmed: ") {
				t.Errorf("got %q, and %q without the adapter", texts[1], texts[0])
			}
		})
	}
}

// Without sessions a client of an older revision cannot be asked. An unmodified handler that has
// a fallback of its own takes it, as it would without the adapter, and that is reported.
func TestFallbackWithoutSessionsIsReported(t *testing.T) {
	for _, mustAsk := range []bool{false, true} {
		server := mcp.NewServer(&mcp.Implementation{Name: "host", Version: "1"}, nil)
		mcp.AddTool(server, &mcp.Tool{Name: "t"}, func(ctx context.Context,
			req *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, any, error) {
			_, err := req.Session.Elicit(ctx, formQuestion())
			if err != nil && !strings.Contains(err.Error(), "does not support") {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{
				&mcp.TextContent{Text: "deleted unasked"}}}, nil, nil
		})
		var seen observer
		installWith(t, server, &gosdk.Options{Options: roundtrip.Options{Observer: &seen},
			UnmodifiedHandlers: true, MustAsk: mustAsk})
		endpoint, recorder := serve(t, handlerOf(t, server,
			&mcp.StreamableHTTPOptions{Stateless: true}))
		got := reached(t, dialSDK(t, newPerson(t, nil), false, legacy,
			&mcp.StreamableClientTransport{Endpoint: endpoint,
				HTTPClient: &http.Client{Transport: recorder}}))
		if mustAsk {
			if !isRefusal(got) {
				t.Errorf("with MustAsk: got %q", got)
			}
			continue
		}
		if got != "deleted unasked" || seen.failedPushes(true) != 1 {
			t.Errorf("got %q, and %d reports, want one", got, seen.failedPushes(true))
		}
	}
}
