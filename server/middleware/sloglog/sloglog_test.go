package sloglog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/sloglog"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// newJSON returns handlers of slog and zap that write the same lines for the same entries.
func newJSON(level slog.Level) (viaSlog, viaZap event.LogSink, slogged, zapped *bytes.Buffer) {
	slogged, zapped = &bytes.Buffer{}, &bytes.Buffer{}
	handler := slog.NewJSONHandler(slogged, &slog.HandlerOptions{Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg", LevelKey: "level",
		EncodeLevel: zapcore.CapitalLevelEncoder})
	core := zapcore.NewCore(encoder, zapcore.AddSync(zapped), zapcore.Level(level/4))
	return sloglog.New(slog.New(handler)), zaplog.New(zap.New(core)), slogged, zapped
}

// The function happen logs events and requests of all kinds.
func happen(t *testing.T, sink event.LogSink) {
	log := middleware.NewLog(sink, nil)
	where := event.Where{Version: protocol.Latest, Method: protocol.MethodCallTool,
		Target: "deploy", Request: "r1", Flow: "f1", Round: 2}
	for _, e := range []event.Event{
		event.InputRequested{Where: where, RoundsLeft: 1, StateBytes: 400,
			Kinds:     []protocol.InputKind{protocol.KindElicitForm, protocol.KindListRoots},
			Questions: []event.AskedQuestion{{Key: "sure\n\"?\""}}},
		event.InputRequested{Where: where, RoundsLeft: 5}, // two empty lists
		event.Answered{Where: where, Key: "sure", Kind: protocol.KindElicitForm,
			Decision: event.Unseen, Waited: 1234567 * time.Microsecond},
		event.Resumed{Where: where, Waited: time.Hour, StateBytes: 1 << 20},
		event.CutOff{Where: where, Retriable: true},
		event.StoreFailed{Where: where, Operation: "claim", Err: errors.New("<gone> & token=abc")},
		event.HandlerPanicked{Where: where, Value: "boom", Stack: []byte("main.go:1\n\tx")},
		event.RequestRefused{Reason: words.RefusedHost, Status: 403, Code: -32600,
			Transport: "http", RemoteAddr: "192.0.2.1:1", Err: errors.New("evil\u2028example")},
		event.EphemeralKey{KeyID: "k1"},
	} {
		log.Observe(t.Context(), e)
	}
	for _, failure := range []error{nil, &protocol.Error{Code: -32603, Message: "lost"}} {
		h := log.Wrap(func(context.Context, *server.Request) (protocol.Result, error) {
			return server.Text("done"), failure
		})
		_, _ = h(t.Context(), &server.Request{Version: protocol.Latest, Target: "deploy",
			RequestID: "r2", Message: &protocol.Request{Method: protocol.MethodCallTool}})
	}
	router, err := elicitation.New(&elicitation.Options{Log: sink})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = router.ElicitFrom(t.Context(), "up", []byte(`{"message":"Sure?"}`))
}

// Both write the same lines of JSON, apart from times and ids.
func TestEntriesAreThoseOfZap(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		viaSlog, viaZap, slogged, zapped := newJSON(level)
		happen(t, viaSlog)
		happen(t, viaZap)
		got, want := lines(slogged), lines(zapped)
		if len(want) < 6 || len(got) != len(want) {
			t.Fatalf("%v: %d entries with slog, %d with zap", level, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%v: with slog\n%s\nwith zap\n%s", level, got[i], want[i])
			}
		}
	}
}

func lines(b *bytes.Buffer) []string {
	all := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, line := range all {
		for _, member := range []string{`"duration_ms":`, `"request_id":`} {
			before, after, found := strings.Cut(line, member)
			if found {
				end := strings.IndexAny(after, ",}")
				line = before + member + after[end:]
			}
		}
		all[i] = line
	}
	return all
}

// A picky handler keeps only the records of requests that ask for it.
type picky struct {
	slog.Handler
	t    *testing.T
	kept *[]slog.Record
}

type wanted struct{}

func (picky) Enabled(ctx context.Context, level slog.Level) bool {
	return ctx.Value(wanted{}) != nil && level >= slog.LevelWarn
}

func (p picky) Handle(ctx context.Context, r slog.Record) error {
	if !p.Enabled(ctx, r.Level) {
		p.t.Errorf("%s is written and not enabled", r.Message)
	}
	*p.kept = append(*p.kept, r)
	return nil
}

// Kept records do not change.
func TestAHandlerChoosesByContextAndKeepsRecords(t *testing.T) {
	var kept []slog.Record
	sink := sloglog.New(slog.New(picky{nil, t, &kept}))
	happen(t, sink)
	if len(kept) != 0 {
		t.Fatalf("%d entries, want none", len(kept))
	}
	log, ctx := middleware.NewLog(sink, nil), context.WithValue(t.Context(), wanted{}, true)
	for _, id := range []string{"one", "two"} {
		log.Observe(ctx, event.EphemeralKey{KeyID: id})
		log.Observe(ctx, event.KeysEnabled{Primary: id})
	}
	if len(kept) != 2 {
		t.Fatalf("%d entries, want 2", len(kept))
	}
	for i, want := range []string{"one", "two"} {
		kept[i].Attrs(func(a slog.Attr) bool {
			if a.Key == "key_id" && a.Value.String() != want {
				t.Errorf("entry %d has key_id %v, want %s", i, a.Value, want)
			}
			return true
		})
		if kept[i].PC != 0 || kept[i].NumAttrs() != 2 {
			t.Errorf("entry %d: %d attributes, PC %d", i, kept[i].NumAttrs(), kept[i].PC)
		}
	}
}

func TestWithoutALoggerNothingIsLogged(t *testing.T) {
	if sink := sloglog.New(nil); sink != nil {
		t.Errorf("a sink: %v", sink)
	}
	happen(t, nil)
}
