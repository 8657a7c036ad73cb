package roundtrip_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

type Deployment struct {
	Region string `json:"region" enum:"eu,us" default:"eu"`
	Reason string `json:"reason" minLength:"2" maxLength:"200"`
}

// BenchmarkDo measures sealed legs: one that asks and one that completes, in each style, and one
// that does neither.
func BenchmarkDo(b *testing.B) {
	question := roundtrip.MustQuestion[Deployment]("deploy")
	done := &protocol.CallToolResult{
		Content: []protocol.Content{&protocol.TextContent{Text: "done"}}}
	guard := func(ctx context.Context) (protocol.Result, error) {
		if _, ok := question.AcceptedContent(ctx); ok {
			return done, nil
		}
		return roundtrip.InputRequired(question.Elicit("Deploy?")), nil
	}
	flow := func(ctx context.Context) (protocol.Result, error) {
		if _, err := question.Ask(ctx, "Deploy?"); err != nil {
			return nil, err
		}
		return done, nil
	}
	for _, bench := range []struct {
		name    string
		answers bool
		handler roundtrip.Handler
	}{
		{"leg 1", false, guard}, {"leg 2", true, guard},
		{"flow style leg 1", false, flow}, {"flow style leg 2", true, flow},
		{"one leg", false, func(context.Context) (protocol.Result, error) { return done, nil }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			funnel, err := roundtrip.NewFunnel(nil)
			noError(b, err)
			call := toolCall()
			call.Arguments = json.RawMessage(
				`{"env":"prod","service":"billing","version":"1.22.3","dryRun":false}`)
			if bench.answers {
				first, err := funnel.Do(b.Context(), call, bench.handler)
				noError(b, err)
				call.State = first.(*protocol.InputRequiredResult).RequestState
				call.Responses = answers("deploy",
					`{"action":"accept","content":{"region":"us","reason":"now"}}`)
			}
			b.ReportAllocs()
			for b.Loop() {
				result, err := funnel.Do(b.Context(), call, bench.handler)
				if err != nil || (bench.answers && result != protocol.Result(done)) {
					b.Fatal(show(result), err)
				}
			}
		})
	}
}

type Essay struct {
	Text string `json:"text"`
}

var essays = func() (list []*roundtrip.FormQuestion[Essay]) {
	for i := range 21 {
		list = append(list, roundtrip.MustQuestion[Essay](fmt.Sprint("essay-", i)))
	}
	return list
}()

// BenchmarkFlow measures one round with accumulated answers: open the state, replay the handler,
// ask once more, seal. It reports the size of the state.
func BenchmarkFlow(b *testing.B) {
	for _, size := range []int{40, 400, 2000} {
		for _, n := range []int{1, 5, 20} {
			b.Run(fmt.Sprintf("%d answers of %d B", n, size), func(b *testing.B) {
				benchmarkRound(b, n, size,
					roundtrip.Options{Limits: roundtrip.Limits{StateBytes: 64 << 10}})
			})
		}
	}
	b.Run("20 answers of 2000 B stored", func(b *testing.B) {
		benchmarkRound(b, 20, 2000, roundtrip.Options{StateStore: forgetful{newShelf()}})
	})
}

// A forgetful shelf keeps only the first state.
type forgetful struct{ *shelf }

func (s forgetful) Put(ctx context.Context, id, owner string, state []byte, until time.Time) error {
	if len(s.data) > 0 {
		return nil
	}
	return s.shelf.Put(ctx, id, owner, state, until)
}

func benchmarkRound(b *testing.B, n, size int, opts roundtrip.Options) {
	funnel, err := roundtrip.NewFunnel(&opts)
	noError(b, err)
	handler := func(ctx context.Context) (protocol.Result, error) {
		var missing []roundtrip.Item
		for _, essay := range essays[:n] {
			if _, ok := essay.AcceptedContent(ctx); !ok {
				missing = append(missing, essay.Elicit("Write something"))
			}
		}
		if len(missing) > 0 {
			return roundtrip.InputRequired(missing...), nil
		}
		_, err := essays[n].Ask(ctx, "And the last")
		return nil, err
	}
	call := toolCall()
	result, err := funnel.Do(b.Context(), call, handler)
	noError(b, err)
	call.State = result.(*protocol.InputRequiredResult).RequestState
	for i := range n {
		call.Responses = append(call.Responses, protocol.KeyedResponse{Key: essays[i].Key(),
			Result: json.RawMessage(`{"action":"accept","content":{"text":"` + strings.Repeat("x", size-len(`{"text":""}`)) + `"}}`)})
	}
	// One more leg, so that the answers come from the state.
	result, err = funnel.Do(b.Context(), call, handler)
	noError(b, err)
	call.State, call.Responses = result.(*protocol.InputRequiredResult).RequestState, nil
	text, _ := call.State.Text()
	b.ReportAllocs()
	for b.Loop() {
		result, err := funnel.Do(b.Context(), call, handler)
		if _, asked := result.(*protocol.InputRequiredResult); err != nil || !asked {
			b.Fatal(show(result), err)
		}
	}
	b.ReportMetric(float64(len(text)), "state-B") // Loop resets earlier metrics
}
