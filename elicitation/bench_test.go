package elicitation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

func benchRouter(b *testing.B, o elicitation.Options) (*elicitation.Router, *elicitation.Session) {
	o.Metrics = prom.New(prometheus.NewRegistry())
	router, err := elicitation.New(&o)
	if err != nil {
		b.Fatal(err)
	}
	s, err := router.Attach(elicitation.SessionInfo{ID: "s1", Principal: alice(),
		Capabilities: caps(true, true)})
	if err != nil {
		b.Fatal(err)
	}
	return router, s
}

// BenchmarkElicit measures one elicitation from the upstream's parameters to the
// client's answer, with a client that answers at once.
func BenchmarkElicit(b *testing.B) {
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	logger := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(io.Discard), zapcore.InfoLevel))
	for _, bench := range []struct {
		name    string
		options elicitation.Options
	}{
		{"metrics", elicitation.Options{Validation: elicitation.ValidateOff}},
		{"metrics, validated", elicitation.Options{}},
		{"metrics, validated, logged", elicitation.Options{Log: zaplog.New(logger)}},
	} {
		for _, shape := range []string{"frames", "asker", "split"} {
			b.Run(shape+", "+bench.name, func(b *testing.B) {
				router, s := benchRouter(b, bench.options)
				answer := []byte(yes)
				via := elicitation.ViaFrames(elicitation.DeliverFunc(func(ctx context.Context,
					m protocol.Message) error {
					router.HandleReply(s.Sender(),
						&protocol.Response{ID: m.(*protocol.Request).ID, Result: answer})
					return nil
				}))
				if shape == "asker" {
					via = elicitation.ViaAsker(elicitation.AskFunc(func(context.Context,
						elicitation.Question, func()) (json.RawMessage, error) {
						return answer, nil
					}))
				}
				params, ctx := form("Deploy to prod?"), b.Context()
				call, err := router.Begin(ctx, elicitation.Origin{Session: s}, via, "up")
				if err != nil {
					b.Fatal(err)
				}
				defer call.End()
				b.ReportAllocs()
				for b.Loop() {
					if shape != "split" {
						if _, err := call.Elicit(ctx, params, nil); err != nil {
							b.Fatal(err)
						}
						continue
					}
					o, err := call.Offer(ctx, params, nil, func(elicitation.Outcome) {})
					if err != nil {
						b.Fatal(err)
					}
					o.ConfirmDelivery()
					router.HandleReply(s.Sender(),
						&protocol.Response{ID: o.Request().ID, Result: answer})
				}
			})
		}
	}
}

// BenchmarkPending measures what a question that waits costs, its session and
// call included.
func BenchmarkPending(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint("split, ", n), func(b *testing.B) {
			for b.Loop() {
				router, _ := benchRouter(b,
					elicitation.Options{Limits: elicitation.Limits{Pending: -1, PerUpstream: -1}})
				before := heapInUse()
				end := make([]func(), n)
				for i := range n {
					s, err := router.Attach(elicitation.SessionInfo{
						ID:           fmt.Sprint("session ", i),
						Principal:    protocol.Principal{Subject: fmt.Sprint(i)},
						Capabilities: caps(true, true),
					})
					if err != nil {
						b.Fatal(err)
					}
					ctx, cancel := context.WithCancel(b.Context())
					call, err := router.Begin(ctx, elicitation.Origin{Session: s},
						elicitation.Via{}, elicitation.UpstreamKey(fmt.Sprint("up ", i)))
					if err != nil {
						b.Fatal(err)
					}
					if _, err := call.Offer(ctx, form("Deploy to prod?"), nil,
						func(elicitation.Outcome) {}); err != nil {
						b.Fatal(err)
					}
					end[i] = func() { cancel(); call.End(); s.Detach() }
				}
				b.ReportMetric(float64(heapInUse()-before)/float64(n), "B/pending")
				b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
				for _, f := range end {
					f()
				}
			}
		})
	}
}
