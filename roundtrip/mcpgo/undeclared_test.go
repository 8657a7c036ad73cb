package mcpgo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// failedPushes counts the events of questions that nobody answered.
func (b *bugs) failedPushes(tolerated bool) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if failed, ok := e.(event.PushFailed); ok && failed.Tolerated == tolerated {
			n++
		}
	}
	return n
}

// deletes is a server whose tool drops the error of its question.
func deletes(t *testing.T, opts mcpgo.Options,
	ask func(ctx context.Context, s *server.MCPServer) error) (*server.MCPServer, *mcpgo.Adapter,
	*bugs) {
	seen := &bugs{}
	opts.Observer = seen
	s := newHostServer()
	s.AddTool(mcp.NewTool("delete"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if ask(ctx, s) == nil {
				t.Error("somebody answered")
			}
			return mcp.NewToolResultText("DELETED"), nil
		})
	return s, install(t, s, &opts), seen
}

// TestSwallowedRefusals: where the client cannot be asked a handler that drops the
// error does not get to say that it went on, unless it asked in this way.
func TestSwallowedRefusals(t *testing.T) {
	for _, optional := range []bool{false, true} {
		for _, revision := range []string{modern, v20251125} {
			for name, open := range links(revision) {
				t.Run(revision+"/"+name, func(t *testing.T) {
					s, a, seen := deletes(t, mcpgo.Options{},
						func(ctx context.Context, _ *server.MCPServer) error {
							if roundtrip.CanAsk(ctx, protocol.KindElicitForm) {
								t.Error("CanAsk says that the client can be asked")
							}
							var opts []roundtrip.QuestionOption
							if optional {
								opts = append(opts, roundtrip.IfPossible())
							}
							_, err := mcpgo.Elicit(ctx, "sure",
								mcp.ElicitationRequest{Params: form("Sure?")}, opts...)
							_, cannot := errors.AsType[*roundtrip.PushError](err)
							if cannot != optional {
								t.Errorf("got %v", err)
							}
							return err
						})
					who := newPerson(nil)
					who.mute = true
					got, err := open(t, a, s, who).tool(within(t), "delete", nil)
					if optional && (got != "DELETED" || seen.failedPushes(true) != 1) {
						t.Errorf("got %q, %v, events %v", got, err, seen.events)
					}
					if !optional && err == nil && !strings.HasPrefix(got, "error: ") {
						t.Errorf("got %q, want a refusal", got)
					}
				})
			}
		}
	}
}

// TestUnmodifiedWithoutCapability: a handler that was not changed gets mcp-go's
// own error, and does what it does without the adapter; with the option its call
// is refused.
func TestUnmodifiedWithoutCapability(t *testing.T) {
	asks := map[string]func(ctx context.Context, s *server.MCPServer) error{
		"elicit": func(ctx context.Context, s *server.MCPServer) error {
			_, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: form("Sure?")})
			return err
		},
		"roots": func(ctx context.Context, s *server.MCPServer) error {
			_, err := s.RequestRoots(ctx, mcp.ListRootsRequest{})
			return err
		},
	}
	for what, ask := range asks {
		for _, must := range []bool{false, true} {
			for _, revision := range []string{modern, v20251125} {
				for name, open := range links(revision) {
					if revision != modern && what == "roots" && !must {
						continue // what clients answer to that is their affair
					}
					t.Run(what+"/"+revision+"/"+name, func(t *testing.T) {
						s, a, seen := deletes(t, mcpgo.Options{UnmodifiedHandlers: true,
							MustAsk: must}, ask)
						who := newPerson(nil)
						who.mute = true
						got, err := open(t, a, s, who).tool(within(t), "delete", nil)
						refused := err != nil || strings.HasPrefix(got, "error: ")
						if refused != must || !must && got != "DELETED" {
							t.Errorf("must ask %v: got %q, %v", must, got, err)
						}
						if n := seen.failedPushes(true); !must && n != 1 || must && n != 0 {
							t.Errorf("must ask %v: events %v", must, seen.events)
						}
					})
				}
			}
		}
	}
}

// TestUnmodifiedFailedPushes: toward an older client that can be asked, a
// question that fails ends the call although the handler drops the error.
func TestUnmodifiedFailedPushes(t *testing.T) {
	for _, must := range []bool{false, true} {
		s, _, seen := deletes(t, mcpgo.Options{UnmodifiedHandlers: true, MustAsk: must},
			func(ctx context.Context, s *server.MCPServer) error {
				_, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: form("Sure?")})
				return err
			})
		got := live(t.Context(), s, elicitFunc(func(context.Context,
			mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			return nil, errors.New("no eyes")
		}), "delete")
		if !strings.HasPrefix(got.text(), "error: the client could not be asked") ||
			seen.failedPushes(false) != 1 {
			t.Errorf("must ask %v: got %s, events %v", must, got.body, seen.events)
		}
	}
}

// A full queue of mcp-go delays a question: it is no failure of the client.
func TestQuestionWaitsForAPlaceInTheQueue(t *testing.T) {
	full := errors.New("elicitation request queue is full - server overloaded")
	for _, style := range []struct {
		name       string
		unmodified bool
		ask        func(context.Context, *server.MCPServer) error
	}{
		{"Elicit", false, func(ctx context.Context, _ *server.MCPServer) error {
			_, err := mcpgo.Elicit(ctx, "sure", mcp.ElicitationRequest{Params: form("Sure?")})
			return err
		}},
		{"unmodified", true, func(ctx context.Context, s *server.MCPServer) error {
			_, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: form("Sure?")})
			return err
		}},
	} {
		t.Run(style.name+"/there is one at last", func(t *testing.T) {
			s := newHostServer()
			s.AddTool(mcp.NewTool("delete"), func(ctx context.Context,
				_ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if err := style.ask(ctx, s); err != nil {
					return nil, err
				}
				return mcp.NewToolResultText("DELETED"), nil
			})
			install(t, s, &mcpgo.Options{UnmodifiedHandlers: style.unmodified})
			asked := 0
			got := live(t.Context(), s, elicitFunc(func(context.Context,
				mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
				if asked++; asked < 4 {
					return nil, full
				}
				return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
					Action: mcp.ElicitationResponseActionDecline}}, nil
			}), "delete")
			if got.text() != "DELETED" || asked != 4 {
				t.Errorf("asked %d times, got %s", asked, got.body)
			}
		})
		t.Run(style.name+"/the call ends before", func(t *testing.T) {
			opts := mcpgo.Options{UnmodifiedHandlers: style.unmodified}
			s, _, _ := deletes(t, opts, style.ask)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			got := live(ctx, s, elicitFunc(func(context.Context,
				mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
				if asked++; asked == 3 {
					cancel()
				}
				return nil, full
			}), "delete")
			if got.text() == "DELETED" || asked != 3 {
				t.Errorf("asked %d times, got %s", asked, got.body)
			}
		})
	}
}

// A handler that fails because its client answered a question with an error says so in its own
// words, the same as without the adapter.
func TestUnmodifiedHandlersSayInTheirWordsThatAQuestionFailed(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprint("plain error ", plain), func(t *testing.T) {
			var texts []string
			for _, adapted := range []bool{false, true} {
				s := newHostServer()
				s.AddTool(mcp.NewTool("delete"), func(ctx context.Context,
					_ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					_, err := s.RequestElicitation(ctx,
						mcp.ElicitationRequest{Params: form("Sure?")})
					switch {
					case err == nil:
						return mcp.NewToolResultText("DELETED"), nil
					case plain:
						return nil, fmt.Errorf("not confirmed: %w", err)
					}
					return mcp.NewToolResultError("not confirmed: " + err.Error()), nil
				})
				if adapted {
					install(t, s, &mcpgo.Options{UnmodifiedHandlers: true})
				}
				got := live(t.Context(), s, elicitFunc(func(context.Context,
					mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
					return nil, errors.New("no eyes")
				}), "delete")
				texts = append(texts, got.body)
			}
			if texts[0] != texts[1] || !strings.Contains(texts[0], "not confirmed: ") {
				t.Errorf("got %s, and %s without the adapter", texts[1], texts[0])
			}
		})
	}
}

// TestErrorsOfClientsKeepTheirCode: what a client says of its error may hold an answer, so the
// event has it apart from the code, and logs can leave it out. mcp-go makes one text of both.
func TestErrorsOfClientsKeepTheirCode(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"delete"}}`
	for _, transport := range []string{"http", "lines"} {
		for name, ask := range map[string]func(context.Context, *server.MCPServer) error{
			"adapter": func(ctx context.Context, _ *server.MCPServer) error {
				_, err := mcpgo.Elicit(ctx, "sure", mcp.ElicitationRequest{Params: form("Sure?")})
				return err
			},
			"unmodified": func(ctx context.Context, s *server.MCPServer) error {
				_, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: form("Sure?")})
				return err
			},
		} {
			t.Run(transport+"/"+name, func(t *testing.T) {
				s, a, seen := deletes(t, mcpgo.Options{UnmodifiedHandlers: true}, ask)
				c := openSession(t, transport, v20251125, a, s)
				c.say(call)
				c.say(fmt.Sprintf(
					`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"pin 4711"}}`,
					c.question().ID))
				c.response("7")
				seen.mu.Lock()
				defer seen.mu.Unlock()
				for _, e := range seen.events {
					if failed, ok := e.(event.PushFailed); ok {
						said, ok := protocol.AsError(failed.Err)
						if !ok || transport == "http" && said.Code != -32000 {
							t.Errorf("the event has %v", failed.Err)
						}
						return
					}
				}
				t.Errorf("no event of a failed push: %v", seen.events)
			})
		}
	}
}
