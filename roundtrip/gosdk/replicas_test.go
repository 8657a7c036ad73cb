package gosdk_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/fleettest"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// fleet starts three replicas, and returns the endpoint of a balancer that takes them in turn,
// and their observers. authenticate goes around each, nil: nobody authenticates.
func fleet(t *testing.T, authenticate func(http.Handler) http.Handler) (string, []*observer) {
	t.Helper()
	var observers []*observer
	f := fleettest.Start(t, 3, func(r *replicas.Options) http.Handler {
		server := mcp.NewServer(&mcp.Implementation{Name: "fleet", Version: "1.0.0"}, nil)
		server.AddTool(&mcp.Tool{Name: "ask", InputSchema: raw(`{"type":"object"}`)},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				first, err := gosdk.Elicit(ctx, req.Session, formQuestion())
				if err != nil {
					return nil, err
				}
				second, err := gosdk.Elicit(gosdk.WithKey(ctx, "again"), req.Session,
					formQuestion())
				if err != nil {
					return nil, err
				}
				return toolText(first.Action + " and " + second.Action), nil
			})
		o := &observer{}
		a, err := gosdk.New(&gosdk.Options{
			Options:  roundtrip.Options{Sealer: r.Keys, Audience: "fleet", Observer: o},
			Replicas: r,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { gosdk.CloseIdle(a) })
		observers = append(observers, o)
		h := newHandler(t, a, func(*http.Request) *mcp.Server { return server }, nil)
		if authenticate != nil {
			h = a.AnswerChallenges(authenticate(h))
		}
		return h
	})
	endpoint, _ := serve(t, f.Balancer())
	return endpoint, observers
}

func forwarded(observers []*observer) (n int) {
	for _, o := range observers {
		n += o.count(func(e event.Event) bool {
			f, ok := e.(event.RequestForwarded)
			return ok && f.Outcome == event.ForwardAnswered
		})
	}
	return n
}

func TestAnyReplicaTakesTheRequestsOfASession(t *testing.T) {
	protect := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	for _, revision := range []string{modern, legacy} {
		for _, kind := range []string{"sdk", "rondo"} {
			t.Run(kind+"/"+revision, func(t *testing.T) {
				endpoint, observers := fleet(t, protect)
				base := http.DefaultTransport.(*http.Transport).Clone()
				t.Cleanup(base.CloseIdleConnections)
				http := &http.Client{Transport: bearer{"secret", base}}
				who := newPerson(t,
					map[string]string{formQuestion().Message: `{"reason":"because"}`})
				var c peer
				if kind == "sdk" {
					c = dialSDK(t, who, false, revision, &mcp.StreamableClientTransport{
						Endpoint: endpoint, HTTPClient: http})
				} else {
					over, err := clienthttp.New(endpoint, &clienthttp.Options{HTTPClient: http})
					if err != nil {
						t.Fatal(err)
					}
					c = dialRondo(t, who, false, revision, over)
				}
				for range 4 {
					got, err := c.do(within(t), "ask")
					if err != nil || got != "accept and accept" {
						t.Fatalf("got %q, %v", got, err)
					}
				}
				if n := forwarded(observers); (n > 0) != (revision == legacy) {
					t.Errorf("%d requests were forwarded", n)
				}
			})
		}
	}
}

func TestIDsThatTheSDKMadeAreUnknown(t *testing.T) {
	endpoint, _ := fleet(t, nil)
	p := &picky{t: t, endpoint: endpoint, session: "AAAAAAAAAAAAAAAAAAAAAAAAAA"}
	response, _ := p.exchange(http.MethodDelete, "")
	http.DefaultClient.CloseIdleConnections()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("got status %d", response.StatusCode)
	}
}
