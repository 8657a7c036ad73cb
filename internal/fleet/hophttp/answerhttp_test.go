package hophttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
)

// TestOnlyAnswersOutliveTheirContext: the server responds after the context has ended.
func TestOnlyAnswersOutliveTheirContext(t *testing.T) {
	for name, of := range map[string]struct {
		method, body string
		completes    bool
	}{
		"result":            {"POST", `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`, true},
		"error":             {"POST", `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`, true},
		"call":              {"POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, false},
		"notification":      {"POST", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, false},
		"method and result": {"POST", `{"jsonrpc":"2.0","id":1,"method":"x","result":{}}`, false},
		"no JSON":           {"POST", `result`, false},
		"GET":               {"GET", ``, false},
	} {
		t.Run(name, func(t *testing.T) {
			arrived, goOn := make(chan struct{}), make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got, _ := io.ReadAll(r.Body); string(got) != of.body {
					t.Errorf("the server got %s", got)
				}
				close(arrived)
				<-goOn
				w.WriteHeader(http.StatusAccepted)
			}))
			defer s.Close()
			ctx, cancel := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, of.method, s.URL, strings.NewReader(of.body))
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				<-arrived
				cancel()
				if of.completes {
					close(goOn)
				}
			}()
			client := http.Client{Transport: hophttp.Transport{Next: http.DefaultTransport}}
			defer client.CloseIdleConnections()
			response, err := client.Do(r)
			if err == nil {
				response.Body.Close()
			}
			if !of.completes {
				close(goOn)
			}
			if completed := err == nil; completed != of.completes ||
				!completed && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestLateAnswersAreNotSent: the call is over before its question is answered.
func TestLateAnswersAreNotSent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:0",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	next := roundTripFunc(func(*http.Request) (*http.Response, error) {
		t.Error("the answer was sent")
		return nil, io.EOF
	})
	_, err = hophttp.Transport{Next: next}.RoundTrip(r)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
