package sdk_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/sdk"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// logged returns what the default logger writes of an event, without the time.
func logged(t *testing.T, level slog.Level, e event.Event) string {
	t.Helper()
	var out bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	sdk.Observer{}.Observe(t.Context(), e)
	return out.String()
}

func TestWarningsGoToTheDefaultLogger(t *testing.T) {
	where := event.Where{Version: "2026-07-28", Method: "tools/call", Target: "pay", Round: 2,
		Flow: "f1"}
	for _, test := range []struct {
		name string
		give event.Event
		want string
	}{
		{"a refused state", event.StateRejected{Where: where, Reference: "ab12",
			Reason: event.ReasonForeignEphemeral, KeyID: "e1"},
			"level=WARN msg=mcp.state_rejected method=tools/call " +
				"version=2026-07-28 target=pay round=2 flow=f1 key_id=e1 " +
				"reference=ab12 reason=foreign_ephemeral\n"},
		{"a mistake of the host", event.ServerBug{Where: where, Err: errors.New("no\nkey Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl")},
			"level=ERROR msg=mcp.server_bug method=tools/call " +
				`version=2026-07-28 target=pay round=2 flow=f1 error="no\\nkey Bearer [redacted]"` + "\n"},
		{"a panic", event.HandlerPanicked{Where: where, Value: "hunter2 is the password"},
			"level=ERROR msg=mcp.handler_panicked method=tools/call " +
				`version=2026-07-28 target=pay round=2 flow=f1 panic="value of type string" stack=""` + "\n"},
		{"a question that nobody answered", event.PushFailed{Where: where,
			Kind: "elicitation.form", Err: errors.New("no session"), Tolerated: true},
			"level=WARN msg=mcp.push_failed method=tools/call version=2026-07-28 target=pay " +
				`round=2 flow=f1 kind=elicitation.form outcome=tolerated error="no session"` + "\n"},
		{"an error of a handler", event.HandlerFailed{Where: where, Err: errors.New("no such file"),
			Text: "no such file"}, ""},
		{"what is no problem", event.Resumed{Where: where}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := logged(t, slog.LevelDebug, test.give); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestLevelOfTheDefaultLoggerIsObeyed(t *testing.T) {
	e := event.EphemeralKey{KeyID: "e1"}
	if got := logged(t, slog.LevelError, e); got != "" {
		t.Errorf("got %s", got)
	}
	if got := logged(t, slog.LevelWarn, e); !strings.Contains(got, "mcp.ephemeral_key") {
		t.Errorf("got %s", got)
	}
}
