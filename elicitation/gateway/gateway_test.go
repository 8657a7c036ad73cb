package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

func TestQuestionsReachTheCallerInEveryPairing(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		u := startUpstream(t)
		p := &person{}
		c := connect(t, front(t, ops(u.url, upstreamEra)), clientEra, p, "ops_deploy")
		wantText(t, c, "ops_deploy", deployed)
		if len(p.shown) != 2 || u.commits.Load() != 1 {
			t.Errorf("shown %q, %d effects", p.shown, u.commits.Load())
		}
		if n := u.calls.Load(); upstreamEra == protocol.Legacy && n != 1 {
			t.Errorf("the upstream was called %d times", n)
		}
		p.answer = func(context.Context, string) *protocol.ElicitResult {
			time.Sleep(500 * time.Millisecond) // reading time
			return client.Decline()
		}
		if got := callText(t, c, "ops_deploy"); !strings.HasPrefix(got, "failed: ") ||
			len(p.shown) != 3 || u.commits.Load() != 1 {
			t.Errorf("declined: got %q after %q, %d effects", got, p.shown, u.commits.Load())
		}
	})
}

func TestProgramsAreUpstreams(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		p := &person{}
		url := front(t, thisProgram(t, upstreamEra.String(), upstreamEra))
		c := connect(t, url, clientEra, p, "ops_deploy")
		for range 2 { // the second call reuses a connection
			wantText(t, c, "ops_deploy", deployed)
		}
		wantEqual(t, "questions shown", len(p.shown), 4)
	})
}

func TestProgramsGetNoSecretsOfTheGateway(t *testing.T) {
	t.Setenv("GATEWAY_KEYS", "a-key-of-the-gateway")
	c := connect(t, front(t, thisProgram(t, "legacy", 0)), 0, &person{}, "ops_env")
	got := callText(t, c, "ops_env")
	if strings.Contains(got, "a-key") || !strings.Contains(got, "PATH=") {
		t.Errorf("the program has %s", got)
	}
}

func TestProgressReachesTheRequestThatWaits(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		upstream := serveTool(t, "work", func(
			ctx context.Context, call *server.ToolCall) (outcome, error) {
			if err := call.Progress(ctx, 1, 3, "before"); err != nil {
				return nil, err
			}
			if _, err := roundtrip.Ask[target](ctx, "where", "Deploy where?"); err != nil {
				return nil, err
			}
			if err := call.Progress(ctx, 2, 3, "after"); err != nil {
				return nil, err
			}
			return server.Text("done"), nil
		})
		c := connect(t, front(t, ops(upstream, upstreamEra)), clientEra, &person{}, "ops_work")
		told := make(chan string, 10)
		result, err := c.CallTool(progressTo(t.Context(), told), "ops_work", nil)
		if err != nil || textOf(result) != "done" {
			t.Fatalf("got %q, %v", textOf(result), err)
		}
		close(told)
		seen := map[string]bool{}
		for message := range told {
			seen[message] = true
		}
		if !seen["before"] || !seen["after"] {
			t.Errorf("told of %v", seen)
		}
	})
}

func TestPromptsResourcesAndLinksArePassedOn(t *testing.T) {
	upstream := ops(startUpstream(t).url, 0)
	upstream.Unprefixed = []string{"greet"}
	c := connect(t, front(t, upstream), 0, &person{}, "ops_link")
	result, err := c.CallTool(t.Context(), "ops_link", nil)
	noError(t, err)
	link, ok := result.Content[0].(*protocol.ResourceLink)
	if !ok || link.URI != "ops+file:///readme" {
		t.Fatalf("got %s", textOf(result))
	}
	var read *protocol.ReadResourceResult
	if !eventually(func() bool { // resources are published after tools
		read, err = c.ReadResource(t.Context(), link.URI)
		return err == nil
	}) {
		t.Fatal(err)
	}
	if read.Contents[0].URI != link.URI || read.Contents[0].Text != "read me" {
		t.Errorf("got %+v", read.Contents[0])
	}
	prompt, err := c.GetPrompt(t.Context(), "greet", nil)
	if err != nil || len(prompt.Messages) != 1 {
		t.Errorf("got %+v, %v", prompt, err)
	}
}

// Upstreams get the capabilities of the call's client, without refused kinds.
func TestUpstreamsLearnTheCapabilitiesOfTheCallAlone(t *testing.T) {
	noSampling := func(context.Context, *client.SamplingQuestion) (
		*protocol.CreateMessageResult, error) {
		return nil, nil
	}
	noRoots := func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
		return nil, nil
	}
	fill := (&person{}).fill
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		upstream := ops(serveTool(t, "who", func(
			_ context.Context, call *server.ToolCall) (outcome, error) {
			declared, err := json.Marshal(call.Capabilities())
			return server.Text(string(declared)), err
		}), upstreamEra)
		url := front(t, upstream)
		for want, opts := range map[string]client.Options{
			`{}`:                          {},
			`{"elicitation":{"form":{}}}`: {ElicitForm: fill},
			`{"sampling":{}}`: {CreateMessage: noSampling,
				Extensions: map[string]json.RawMessage{"example.com/x": []byte("{}")}},
		} {
			opts.Era = clientEra
			wantText(t, connectWith(t, url, opts, "ops_who"), "ops_who", want)
		}
		upstream.Refuse = []protocol.InputKind{protocol.KindElicitForm, protocol.KindElicitURL,
			protocol.KindCreateMessage, protocol.KindListRoots}
		wantText(t, connectWith(t, front(t, upstream), client.Options{Era: clientEra,
			ElicitForm: fill, ElicitURL: agreeToVisit, CreateMessage: noSampling,
			ListRoots: noRoots}, "ops_who"), "ops_who", "{}")
	})
}

func TestKeysOfQuestionsAreNewInEachRound(t *testing.T) {
	c := byHand(t, front(t, ops(startUpstream(t).url, protocol.Modern)), "ops_deploy")
	first := begin(t, c)
	second, _ := resume(t, c, first, target{"production"})
	if a, b := first.Questions()[0].Key, second.Questions()[0].Key; a == b {
		t.Errorf("two questions have the key %q", a)
	}
}

// A starting gateway makes first requests wait for the lists, including resumed requests.
func TestTheFirstRequestsWaitForTheLists(t *testing.T) {
	t.Parallel()
	var connected atomic.Int64
	slow := beforeConnect(ops(startUpstream(t).url, 0), func(gateway.Credential) error {
		time.Sleep(300 * time.Millisecond)
		connected.CompareAndSwap(0, time.Now().UnixNano())
		return nil
	})
	url := front(t, slow, gateway.Upstream{Name: "hangs", Connect: func(
		ctx context.Context, _ gateway.Credential,
	) (protocol.Peer, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	c := connect(t, url, protocol.Modern, &person{})
	wantText(t, c, "ops_deploy", deployed)
	took := time.Since(time.Unix(0, connected.Load()))
	if took > 1600*time.Millisecond && !testkit.Race { // the limit is 2 s
		t.Errorf("waited %v for another upstream", took)
	}
}
