package roundtrip_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Deployment is the form of the benchmarks: two fields.
type Deployment struct {
	Region string `json:"region" enum:"eu,us" default:"eu"`
	Reason string `json:"reason" minLength:"2" maxLength:"200"`
}

// BenchmarkDo takes a call through the funnel, sealed: the leg that asks, the
// leg that completes, and one that neither asks nor resumes.
func BenchmarkDo(b *testing.B) {
	question := roundtrip.MustQuestion[Deployment]("deploy")
	done := &protocol.CallToolResult{Content: []protocol.Content{&protocol.TextContent{Text: "done"}}}
	handler := func(ctx context.Context) (protocol.Result, error) {
		if _, ok := question.AcceptedContent(ctx); ok {
			return done, nil
		}
		return roundtrip.InputRequired(question.Elicit("Deploy?")), nil
	}
	for _, bench := range []struct {
		name    string
		opts    roundtrip.Options
		answer  string
		handler roundtrip.Handler
	}{
		{"leg 1", roundtrip.Options{}, "", handler},
		{"leg 2", roundtrip.Options{}, `{"action":"accept","content":{"region":"us","reason":"now"}}`, handler},
		{"leg 1 plain", roundtrip.Options{Plain: true}, "", handler},
		{"one leg", roundtrip.Options{}, "", func(context.Context) (protocol.Result, error) { return done, nil }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			funnel, err := roundtrip.NewFunnel(bench.opts)
			if err != nil {
				b.Fatal(err)
			}
			call := toolCall()
			call.Arguments = json.RawMessage(`{"env":"prod","service":"billing","version":"1.22.3","dryRun":false}`)
			if bench.answer != "" {
				first, err := funnel.Do(b.Context(), call, bench.handler)
				if err != nil {
					b.Fatal(err)
				}
				call.State = first.(*protocol.InputRequiredResult).RequestState
				call.Responses = answers("deploy", bench.answer)
			}
			b.ReportAllocs()
			for b.Loop() {
				result, err := funnel.Do(b.Context(), call, bench.handler)
				if err != nil || (bench.answer != "" && result != protocol.Result(done)) {
					b.Fatal(show(result), err)
				}
			}
		})
	}
}
