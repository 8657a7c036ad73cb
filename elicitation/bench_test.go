package elicitation_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// BenchmarkElicit measures one elicitation from the upstream's parameters to the
// client's answer, with a client that answers at once.
func BenchmarkElicit(b *testing.B) {
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	logger := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(io.Discard), zapcore.InfoLevel))
	for _, bench := range []struct {
		name    string
		options elicitation.Options
	}{
		{"metrics", elicitation.Options{Validation: elicitation.ValidateOff, Log: silent}},
		{"metrics, validated", elicitation.Options{Log: silent}},
		{"metrics, validated, logged", elicitation.Options{Log: zaplog.New(logger)}},
	} {
		for _, shape := range []string{"frames", "asker"} {
			b.Run(shape+", "+bench.name, func(b *testing.B) {
				r := newRig(b, bench.options)
				s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
				answer := []byte(yes)
				via := sends(func(_ context.Context, m protocol.Message) error {
					r.Router.HandleReply(s.Sender(),
						&protocol.Response{ID: m.(*protocol.Request).ID, Result: answer})
					return nil
				})
				if shape == "asker" {
					via = elicitation.ViaAsker(elicitation.AskFunc(func(context.Context,
						elicitation.Question, func()) (json.RawMessage, error) {
						return answer, nil
					}))
				}
				params, ctx := form("Deploy to prod?"), b.Context()
				call := r.beginIn(ctx, elicitation.Origin{Session: s}, via, "up")
				b.ReportAllocs()
				for b.Loop() {
					if _, err := call.Elicit(ctx, params); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
