package elicitation_test

import (
	"context"
	"encoding/json"
	"io"
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
		for _, shape := range []string{"frames", "asker"} {
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
					if _, err := call.Elicit(ctx, params, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
