package gosdk_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// A person in a session has HumanTimeout, and more while the client reports
// that somebody is at it.
func TestProgressOnAQuestion(t *testing.T) {
	for _, progress := range []bool{true, false} {
		t.Run(fmt.Sprint(progress), func(t *testing.T) {
			server := single(t, asks(&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}),
				gosdk.WithFunnel(roundtrip.Options{HumanTimeout: time.Minute}))
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := mcp.NewInMemoryTransports()
				served, err := server.Connect(t.Context(), theirs, nil)
				if err != nil {
					t.Fatal(err)
				}
				c := mcp.NewClient(&mcp.Implementation{Name: "slow", Version: "1"}, &mcp.ClientOptions{
					ElicitationHandler: func(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						for i := range 3 {
							select {
							case <-time.After(45 * time.Second):
							case <-ctx.Done():
								return nil, ctx.Err()
							}
							if progress {
								_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i)})
							}
						}
						return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"reason": "because"}}, nil
					}})
				session, err := c.Connect(t.Context(), ours, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
				if err != nil {
					t.Fatal(err)
				}
				got, err := sdkPeer{session}.do(t.Context(), "t")
				want := map[bool]string{true: "1 answers", false: "error: nobody answered in time"}[progress]
				if err != nil || !strings.Contains(got, want) {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
				_ = session.Close()
				_ = served.Wait()
			})
		})
	}
}

// Integers that a float cannot hold are read exactly by Ask behind Handler.
func TestLargeIntegers(t *testing.T) {
	type account struct {
		Number int64 `json:"number"`
	}
	w := dialWire(t, single(t, func(ctx context.Context, _ *toolRequest) (*mcp.CallToolResult, error) {
		a, err := roundtrip.Ask[account](ctx, "account", "Which account?")
		if err != nil {
			return nil, err
		}
		return toolText(fmt.Sprint(a.Number)), nil
	}))
	first := w.call("t", "")
	first.wantAsks("account")
	w.retry("t", first, `{"account":{"action":"accept","content":{"number":9007199254740993}}}`).wantText("9007199254740993")
}

// Whoever installs twice is told, and nobody is let through.
func TestInstalledTwice(t *testing.T) {
	var bugs observer
	server := single(t, asks(toolText("done")))
	if err := gosdk.Install(server, gosdk.WithFunnel(roundtrip.Options{Observer: &bugs})); err != nil {
		t.Fatal(err)
	}
	dialWire(t, server).call("t", "").wantError(protocol.CodeInternalError, 200)
}
