package roundtriptest_test

import (
	"context"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/server"
)

// Release is the argument of the tool under test.
type Release struct {
	Env string `json:"env"`
}

// Approval is the form of its question.
type Approval struct {
	Reason string `json:"reason" minLength:"3"`
}

// newReleasing returns the server under test. Its tool asks before it acts.
func newReleasing(effects *roundtriptest.Effects) (*server.Server, error) {
	srv, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "releasing", Version: "1.0.0"}})
	if err != nil {
		return nil, err
	}
	release := func(ctx context.Context, _ *server.ToolCall,
		in Release) (protocol.CallToolOutcome, error) {
		approval, err := roundtrip.Ask[Approval](ctx, "approval", "Release to "+in.Env+"?")
		if err != nil {
			return nil, err
		}
		effects.Mark("release") // where the real one releases
		return server.Text("released to " + in.Env + ": " + approval.Reason), nil
	}
	server.AddTool(srv, server.Tool{Name: "release"}, release)
	return srv, nil
}

// testRelease plays flows in both eras, and attacks the one that completes. Call yours TestRelease.
func testRelease(t *testing.T) {
	effects := &roundtriptest.Effects{}
	subject := roundtriptest.Server(func() (*server.Server, error) {
		return newReleasing(effects)
	})
	subject.Effects = effects

	request := roundtriptest.Tool("release", Release{Env: "prod"})
	approved := roundtriptest.Flow{
		Name:    "approved",
		Request: request,
		Answers: roundtriptest.Answers{
			"approval": roundtriptest.Accept(Approval{Reason: "tested"}),
		},
		Want: "released to prod: tested",
	}
	declined := roundtriptest.Flow{
		Name:    "declined",
		Request: request,
		Answers: roundtriptest.Answers{"approval": roundtriptest.Decline()},
		Fails:   "approval",
		Never:   []string{"release"},
	}
	roundtriptest.Run(t, subject, approved, declined)
	roundtriptest.Attack(t, subject, approved)
}

// A handler is played in both eras and attacked, in the test's process.
func Example() {
	var t *testing.T // of the test function
	if t != nil {
		testRelease(t)
	}
}
