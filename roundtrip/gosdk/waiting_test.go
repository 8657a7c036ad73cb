package gosdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// A call in a session that waits for a person shows that it is alive, and the
// author's middleware hears of the wait.
func TestCallsThatWait(t *testing.T) {
	asks := map[string]func(context.Context, *toolRequest) (*mcp.CallToolResult, error){
		"returned": func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			if len(req.Params.InputResponses) > 0 {
				return nil, nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}, nil
		},
		"pushed": func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			_, err := gosdk.Elicit(ctx, req.Session, formQuestion())
			return nil, err
		},
		"pushed with the SDK's own method": func(ctx context.Context,
			req *toolRequest) (*mcp.CallToolResult, error) {
			_, err := req.Session.Elicit(ctx, formQuestion())
			return nil, err
		},
	}
	for name, ask := range asks {
		handler := func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			report(ctx, req, 1)
			if result, err := ask(ctx, req); result != nil || err != nil {
				return result, err
			}
			report(ctx, req, 2)
			return toolText("done"), nil
		}
		t.Run(name, func(t *testing.T) {
			server := single(t, handler, withUnmodifiedHandlers())
			var told []bool
			server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result,
					error) {
					return next(roundtrip.WatchWaiting(ctx,
						func(waiting bool) { told = append(told, waiting) }), method, req)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var seen []*mcp.ProgressNotificationParams
				session := thinker(t, server, 20*time.Second,
					func(p *mcp.ProgressNotificationParams) {
						mu.Lock()
						defer mu.Unlock()
						seen = append(seen, p)
					})
				result, err := session.CallTool(t.Context(),
					&mcp.CallToolParams{Name: "t", Meta: mcp.Meta{"progressToken": "p"}})
				if err != nil || result.IsError {
					t.Fatalf("got %+v, %v", result, err)
				}
				time.Sleep(time.Hour)
				mu.Lock()
				defer mu.Unlock()
				var lines []string
				last := 0.0
				for _, p := range seen {
					lines = append(lines, p.Message)
					if p.Progress < last {
						t.Errorf("progress falls from %v to %v", last, p.Progress)
					}
					last = p.Progress
				}
				// Returned questions have the handler run once more.
				got := strings.Join(lines, ", ")
				if !strings.Contains(got, "1, waiting for an answer, waiting for an answer") ||
					!strings.HasSuffix(got, "waiting for an answer, 2") {
					t.Errorf("the client saw %s", got)
				}
				if fmt.Sprint(told) != "[true false]" {
					t.Errorf("the middleware was told %v, want true and false", told)
				}
				_ = session.Close()
			})
		})
	}
}

func TestCallsThatWaitHaveBounds(t *testing.T) {
	server := single(t, func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		_, err := req.Session.Elicit(ctx, formQuestion())
		return toolText("done"), err
	}, withUnmodifiedHandlers(),
		withFunnel(roundtrip.Options{Limits: roundtrip.Limits{WaitingPerSession: 1}}))
	synctest.Test(t, func(t *testing.T) {
		session := thinker(t, server, time.Minute, nil)
		first := make(chan error, 1)
		go func() {
			_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
			first <- err
		}()
		synctest.Wait()
		_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
		if err == nil || !strings.Contains(err.Error(), "too many calls wait for a person") {
			t.Errorf("a second call got %v, want a refusal", err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		_ = session.Close()
	})
}

func report(ctx context.Context, req *mcp.CallToolRequest, n float64) {
	_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: req.Params.GetProgressToken(), Progress: n, Message: fmt.Sprint(n),
	})
}

// thinker is a client of an older revision with a person who takes her time.
func thinker(t *testing.T, server *mcp.Server, d time.Duration,
	progress func(*mcp.ProgressNotificationParams)) *mcp.ClientSession {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), wrapTransport(t, server, theirs), nil); err != nil {
		t.Fatal(err)
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "thinker", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult,
			error) {
			select {
			case <-time.After(d):
				return &mcp.ElicitResult{Action: "accept",
					Content: map[string]any{"reason": "because"}}, nil
			case <-ctx.Done():
				return nil, errors.New("withdrawn")
			}
		},
		ProgressNotificationHandler: func(_ context.Context,
			req *mcp.ProgressNotificationClientRequest) {
			if progress != nil {
				progress(req.Params)
			}
		},
	})
	session, err := c.Connect(t.Context(), ours, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// wires are the connections over which a client reaches a server.
var wires = map[string]func(*testing.T, *mcp.Server) mcp.Transport{
	"http": func(t *testing.T, server *mcp.Server) mcp.Transport {
		recorder := &wiretest.Recorder{
			Base: pipehttp.Serve(t, handlerOf(t, server, nil)).Client().Transport}
		return &mcp.StreamableClientTransport{Endpoint: pipehttp.URL,
			HTTPClient: &http.Client{Transport: recorder}}
	},
	"lines": func(t *testing.T, server *mcp.Server) mcp.Transport {
		r1, w1 := io.Pipe()
		r2, w2 := io.Pipe()
		t.Cleanup(func() { _ = w1.Close(); _ = w2.Close() })
		run(t, server, &mcp.IOTransport{Reader: r1, Writer: w2})
		return &mcp.IOTransport{Reader: r2, Writer: w1}
	},
}

// A visit that is finished is announced to the client of a session under the id
// under which it was asked for. Modern revisions have no such notification.
func TestFinishedVisitsAreAnnounced(t *testing.T) {
	for over, open := range wires {
		for _, revision := range []string{legacy, modern} {
			t.Run(over+"/"+revision, func(t *testing.T) {
				server := single(t, func(ctx context.Context,
					_ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					if err := roundtrip.AskURL(ctx, "login", "Sign in",
						"https://id.example/"); err != nil {
						return nil, err
					}
					err := roundtrip.Await(ctx, "login",
						func(context.Context) (bool, error) { return true, nil })
					return toolText("signed in"), err
				})
				visited, finished := make(chan string, 10), make(chan string, 10)
				c := mcp.NewClient(&mcp.Implementation{Name: "visitor", Version: "1"},
					&mcp.ClientOptions{
						Capabilities: &mcp.ClientCapabilities{
							Elicitation: &mcp.ElicitationCapabilities{
								URL: &mcp.URLElicitationCapabilities{}},
						},
						ElicitationHandler: func(_ context.Context,
							req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
							visited <- req.Params.ElicitationID
							return &mcp.ElicitResult{Action: "accept"}, nil
						},
						ElicitationCompleteHandler: func(_ context.Context,
							req *mcp.ElicitationCompleteNotificationRequest) {
							finished <- req.Params.ElicitationID
						},
					})
				session, err := c.Connect(t.Context(), open(t, server),
					&mcp.ClientSessionOptions{ProtocolVersion: revision})
				if err != nil {
					t.Fatal(err)
				}
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
				if err != nil || result.IsError {
					t.Fatalf("got %+v, %v", result, err)
				}
				if id := <-visited; revision == legacy {
					select {
					case told := <-finished:
						if told != id || id == "" {
							t.Errorf("the end of %q is announced, asked for was %q", told, id)
						}
					case <-time.After(patience):
						t.Error("nothing is announced")
					}
				}
				_ = session.Close()
				if len(visited)+len(finished) > 0 {
					t.Errorf("%d more questions and %d more announcements", len(visited),
						len(finished))
				}
			})
		}
	}
}

// A goroutine that a handler left behind may wait on for a person. The call has its
// result, which nothing follows.
func TestNoHeartbeatFollowsTheResult(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := make(chan error, 1)
				server := single(t, func(ctx context.Context,
					req *toolRequest) (*mcp.CallToolResult, error) {
					go func() {
						time.Sleep(after)
						_, err := req.Session.Elicit(context.WithoutCancel(ctx), formQuestion())
						asked <- err
					}()
					time.Sleep(time.Second / 2)
					return toolText("done"), nil
				}, withUnmodifiedHandlers())
				session := thinker(t, server, time.Minute,
					func(p *mcp.ProgressNotificationParams) {
						t.Errorf("after the result came %+v", p)
					})
				params := &mcp.CallToolParams{Name: "t", Meta: mcp.Meta{"progressToken": "p"}}
				if result, err := session.CallTool(t.Context(), params); err != nil ||
					result.IsError {
					t.Fatalf("got %+v, %v", result, err)
				}
				t.Logf("the question got %v", <-asked)
				_ = session.Close()
			})
		})
	}
}

// A person in a session has HumanTimeout, and more while the client reports
// that somebody is at it.
func TestProgressExtendsAQuestion(t *testing.T) {
	for _, progress := range []bool{true, false} {
		t.Run(fmt.Sprint(progress), func(t *testing.T) {
			server := single(t,
				asks(&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}),
				withFunnel(roundtrip.Options{HumanTimeout: time.Minute}))
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := mcp.NewInMemoryTransports()
				served, err := server.Connect(t.Context(), wrapTransport(t, server, theirs), nil)
				if err != nil {
					t.Fatal(err)
				}
				c := mcp.NewClient(&mcp.Implementation{Name: "slow", Version: "1"},
					&mcp.ClientOptions{
						ElicitationHandler: func(ctx context.Context,
							req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
							for i := range 3 {
								select {
								case <-time.After(45 * time.Second):
								case <-ctx.Done():
									return nil, ctx.Err()
								}
								if progress {
									_ = req.Session.NotifyProgress(ctx,
										&mcp.ProgressNotificationParams{
											ProgressToken: req.Params.GetProgressToken(),
											Progress:      float64(i)})
								}
							}
							return &mcp.ElicitResult{Action: "accept",
								Content: map[string]any{"reason": "because"}}, nil
						}})
				session, err := c.Connect(t.Context(), ours,
					&mcp.ClientSessionOptions{ProtocolVersion: legacy})
				if err != nil {
					t.Fatal(err)
				}
				got, err := sdkPeer{session}.do(t.Context(), "t")
				want := map[bool]string{true: "1 answers",
					false: "error: nobody answered in time"}[progress]
				if err != nil || !strings.Contains(got, want) {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
				_ = session.Close()
				_ = served.Wait()
			})
		})
	}
}

// The SDK hands on whatever a client sends as the progress token. One that is
// neither text nor a number is as if there were none.
func TestProgressTokensOfEveryKind(t *testing.T) {
	server := single(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult,
		error) {
		if len(req.Params.InputResponses) == 0 {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}, nil
		}
		return toolText("done"), nil
	})
	for name, token := range map[string]any{
		"object": map[string]any{"p": 1}, "null": nil, "number": 1.5} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				session := thinker(t, server, 20*time.Second, nil)
				result, err := session.CallTool(t.Context(),
					&mcp.CallToolParams{Name: "t", Meta: mcp.Meta{"progressToken": token}})
				if err != nil || result.IsError {
					t.Fatalf("got %+v, %v", result, err)
				}
				_ = session.Close()
			})
		})
	}
}
