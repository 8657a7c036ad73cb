package roundtriptest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/server"
)

// The type act is an external effect: a request to a bank.
type act func(ctx context.Context, card string) error

// newActing's servers have a tool that looks up and acts before it asks, and one that acts after.
func newActing(look, do act) func() (*server.Server, error) {
	return func() (*server.Server, error) {
		srv, err := server.New(&server.Options{Info: protocol.Implementation{Name: "acting",
			Version: "1"}})
		if err != nil {
			return nil, err
		}
		add := func(name string, before, after act) {
			server.AddRawTool(srv, server.Tool{Name: name},
				func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
					if err := before(ctx, "4711"); err != nil {
						return nil, err
					}
					if _, err := roundtripAsk(ctx); err != nil {
						return nil, err
					}
					return server.Text("done"), after(ctx, "4711")
				})
		}
		both := func(ctx context.Context, card string) error {
			return errors.Join(look(ctx, card), do(ctx, card))
		}
		nothing := func(context.Context, string) error { return nil }
		add("early", both, nothing)
		add("late", look, do)
		return srv, nil
	}
}

func TestUnmarkedEffects(t *testing.T) {
	effects := &roundtriptest.Effects{}
	look, do := actOverHTTP(t, effects)
	subject := roundtriptest.Server(newActing(look, do))
	subject.Effects = effects
	flow := roundtriptest.Flow{Request: roundtriptest.Tool("late", nil), Want: "done",
		Answers: roundtriptest.Answers{"sure": because("tested")}}
	if problems := roundtriptest.FindProblems(t, subject, flow); len(problems) > 0 {
		t.Errorf("the tool that acts late: %v", problems)
	}
	flow.Request = roundtriptest.Tool("early", nil)
	problems := errors.Join(roundtriptest.FindProblems(t, subject, flow)...)
	if problems == nil || !strings.Contains(problems.Error(), "happened in 2 rounds") {
		t.Errorf("the tool that acts early: %v", problems)
	}
}

func TestRoundsShowCost(t *testing.T) {
	effects := &roundtriptest.Effects{}
	look, do := actOverHTTP(t, effects)
	subject := roundtriptest.Server(newActing(look, do))
	subject.Effects = effects
	subject.Eras = []protocol.Era{protocol.Modern}
	roundtriptest.Run(t, subject, roundtriptest.Flow{Name: "late",
		Request: roundtriptest.Tool("late", nil), Want: "done",
		Answers: roundtriptest.Answers{"sure": because("tested")}})
	var got [][]string
	for _, round := range effects.Rounds() {
		var methods []string
		for _, request := range round {
			method, _, _ := strings.Cut(request, " ")
			methods = append(methods, method)
		}
		got = append(got, methods)
	}
	if want := [][]string{{"GET"}, {"GET", "POST"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("rounds %q, want %q", got, want)
	}
}

// Requests pass unchanged; repeating an idempotency key repeats no effect.
func TestTransportPassesOn(t *testing.T) {
	var got string
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + string(body)
	}))
	defer web.Close()
	effects := &roundtriptest.Effects{}
	doer := &http.Client{Transport: effects.Transport(web.Client().Transport)}
	resp, err := doer.Post(web.URL+"/charges?secret=1", "text/plain", strings.NewReader("4711"))
	noError(t, err)
	_ = resp.Body.Close()
	if got != "POST 4711" {
		t.Errorf("the server got %q", got)
	}
	want := [][]string{{"POST " + web.URL + "/charges"}}
	if rounds := effects.Rounds(); !reflect.DeepEqual(rounds, want) {
		t.Errorf("rounds %q, want %q", rounds, want)
	}
}

func actOverHTTP(t *testing.T, effects *roundtriptest.Effects) (look, do act) {
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(web.Close)
	doer := &http.Client{Transport: effects.Transport(web.Client().Transport)}
	send := func(method, path string) act {
		return func(ctx context.Context, card string) error {
			req, err := http.NewRequestWithContext(ctx, method, web.URL+path,
				strings.NewReader(card))
			if err != nil {
				return err
			}
			resp, err := doer.Do(req)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}
	}
	return send(http.MethodGet, "/cards"), send(http.MethodPost, "/charges")
}
