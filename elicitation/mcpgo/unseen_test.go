package mcpgo_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// always answers with an action and nothing else.
func always(action string) answering {
	return func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
		return result(action, nil), nil
	}
}

// TestUnseenIsOffInProcessUnlessSet: a client in the process is a program of the author's. The
// upstream gets its action in any case.
func TestUnseenIsOffInProcessUnlessSet(t *testing.T) {
	for min, unseen := range map[time.Duration]int{0: 0, time.Hour: 1} {
		core, logs := observer.New(zap.DebugLevel)
		router, err := elicitation.New(&elicitation.Options{Log: zaplog.New(zap.New(core)),
			MinHumanTime: min})
		if err != nil {
			t.Fatal(err)
		}
		s := server.NewMCPServer("gateway", "1")
		clients, err := mcpgo.NewDownstream(router, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		session := server.NewInProcessSessionWithHandlers("one", nil, always("decline"), nil)
		session.SetClientCapabilities(
			mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}})
		call, err := clients.Begin(s.WithContext(t.Context(), session), "shared")
		if err != nil {
			t.Fatal(err)
		}
		defer call.End()
		got, err := mcpgo.ElicitationHandler(router, "shared").Elicit(t.Context(),
			mcp.ElicitationRequest{Params: mcp.ElicitationParams{Mode: "form",
				Message: "Sure?", RequestedSchema: json.RawMessage(schema)}})
		if err != nil || got.Action != "decline" {
			t.Errorf("%v: got %v, %v", min, got, err)
		}
		if n := logs.Filter(isUnseen).Len(); n != unseen {
			t.Errorf("%v: %d entries say unseen, want %d", min, n, unseen)
		}
	}
}

func isUnseen(e observer.LoggedEntry) bool { return e.ContextMap()["unseen"] == true }
