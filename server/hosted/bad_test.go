package hosted_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
)

func panics(context.Context, *fakeCall) (string, error) { panic("at the disco") }

func failed(text string) bool {
	return strings.HasPrefix(text, "error: ") || strings.HasPrefix(text, "failed: ")
}

func always(result string) handler {
	return func(context.Context, *fakeCall) (string, error) { return result, nil }
}

func TestHostedServersThatMisbehave(t *testing.T) {
	released := make(chan struct{})
	f := &fake{answers: map[string]handler{
		"panics":                 panics,
		protocol.MethodListTools: panics,
		"garbage":                always("{{"),
		"array":                  always("[]"),
		"nothing":                always(""),
		"asks garbage": func(ctx context.Context, c *fakeCall) (string, error) {
			_, err := c.askForm(ctx, "?", `{"type":"object","properties":{"a":{"type":"object"}}}`)
			return textResult("%v", err), err
		},
		"asks late": func(ctx context.Context, c *fakeCall) (string, error) {
			go func() {
				<-released
				_, err := c.ask(context.WithoutCancel(ctx), "Too late?")
				if err == nil {
					t.Error("a question after the call has an answer")
				}
				released <- struct{}{}
			}()
			return textResult("left"), nil
		},
		"asks often": func(ctx context.Context, c *fakeCall) (string, error) {
			for i := range 200 {
				if _, err := c.ask(ctx, fmt.Sprint("Question ", i)); err != nil {
					return "", err
				}
			}
			return textResult("all"), nil
		},
	}}
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		h := host(t, f, nil)
		c := open(t, r.open(t, h), era, hostedtest.Answering(protocol.ActionAccept))
		for tool, want := range map[string]string{
			"panics": "internal error", "garbage": "", "array": "", "nothing": "",
			"asks garbage": "",
		} {
			got := hostedtest.CallTool(t, c, tool)
			if !failed(got) || !strings.Contains(got, want) {
				t.Errorf("%s: got %q", tool, got)
			}
		}
		for _, err := range c.Tools(t.Context()) {
			if err == nil {
				t.Error("a list that panics has entries")
			}
		}
		wantText(t, c, "asks late", "left")
		released <- struct{}{}
		<-released
		// Rounds are limited in a flow; in a session the handler asks up to that limit.
		got := hostedtest.CallTool(t, c, "asks often")
		if era == protocol.Modern && !failed(got) {
			t.Errorf("200 rounds: got %q", got)
		}
	})
}

func TestACancelledCallReachesTheHandler(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	f := &fake{answers: map[string]handler{
		"waits": func(ctx context.Context, _ *fakeCall) (string, error) {
			began <- struct{}{}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return "", ctx.Err()
		},
	}}
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		h := host(t, f, nil)
		c := open(t, r.open(t, h), era, client.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan error, 1)
		go func() { _, err := c.CallTool(ctx, "waits", nil); returned <- err }()
		<-began
		cancel()
		select {
		case <-ended:
		case <-time.After(time.Second):
			t.Error("the handler goes on")
		}
		if err := <-returned; err == nil {
			t.Error("a cancelled call has a result")
		}
	})
}

func TestAServerThatCannotStartIsAnError(t *testing.T) {
	for name, open := range map[string]handler{
		"error": func(context.Context, *fakeCall) (string, error) {
			return "", fmt.Errorf("no configuration")
		},
		"panic": func(context.Context, *fakeCall) (string, error) { panic("no configuration") },
	} {
		f := &fake{answers: map[string]handler{"initialize": open}}
		if _, err := hosted.New(hosted.One(f), nil); err == nil ||
			!strings.Contains(err.Error(), "no configuration") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := hosted.New(nil, nil); err == nil {
		t.Error("a nil source is taken")
	}
}

func TestALongListIsPassedOn(t *testing.T) {
	var list strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&list, `,{"name":"tool %d","inputSchema":{"type":"object"}}`, i)
	}
	f := &fake{answers: map[string]handler{
		protocol.MethodListTools: func(context.Context, *fakeCall) (string, error) {
			return `{"tools":[` + list.String()[1:] + `]}`, nil
		},
	}}
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		if r.name == "stdio" {
			return // a line has at most 16 MiB
		}
		h := host(t, f, nil)
		c := open(t, r.open(t, h), era, client.Options{})
		n := 0
		for _, err := range c.Tools(t.Context()) {
			noError(t, err)
			n++
		}
		if n != 10_000 {
			t.Errorf("%d tools", n)
		}
	})
}
