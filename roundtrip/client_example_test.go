package roundtrip_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

func userSays(text string) *protocol.CreateMessage {
	return &protocol.CreateMessage{MaxTokens: 200, Messages: []protocol.SamplingMessage{{
		Role: protocol.User, Content: []protocol.Content{&protocol.TextContent{Text: text}}}}}
}

const summary = `{"role":"assistant","model":"m","content":{"type":"text","text":"All is well."}}`

// CreateMessage is the AskMessage of guard style: the handler returns the question.
func ExampleCreateMessage() {
	handler := func(ctx context.Context) (protocol.Result, error) {
		said, ok := roundtrip.Sampled(ctx, "summary")
		if !ok {
			return roundtrip.InputRequired(
				roundtrip.CreateMessage("summary", userSays("Summarize the log."))), nil
		}
		return done(said.Content[0].(*protocol.TextContent).Text)
	}
	play(handler, map[string]string{"summary": summary})
	// Output:
	// asked the model
	// done: All is well.
}

const folders = `{"roots":[{"uri":"file:///home/ann/project","name":"project"}]}`

// AskRoots asks the client which folders it has opened.
func ExampleAskRoots() {
	handler := func(ctx context.Context) (protocol.Result, error) {
		roots, err := roundtrip.AskRoots(ctx, "folders")
		if err != nil {
			return nil, err
		}
		return done("searched " + roots[0].URI)
	}
	playAs(protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}, handler,
		map[string]string{"folders": folders})
	// Output:
	// asked for the folders
	// done: searched file:///home/ann/project
}

// ListRoots is AskRoots for guard style.
func ExampleListRoots() {
	handler := func(ctx context.Context) (protocol.Result, error) {
		roots, ok := roundtrip.Roots(ctx, "folders")
		if !ok {
			return roundtrip.InputRequired(roundtrip.ListRoots("folders")), nil
		}
		return done("searched " + roots[0].Name)
	}
	playAs(protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}, handler,
		map[string]string{"folders": folders})
	// Output:
	// asked for the folders
	// done: searched project
}

// Fresh values in a question must be the same in every round.
func ExampleNonce() {
	handler := func(ctx context.Context) (protocol.Result, error) {
		first, err := roundtrip.Nonce(ctx, "login")
		if err != nil {
			return nil, err
		}
		kept, err := roundtrip.Memo(ctx, "shown", func(context.Context) (string, error) {
			return first, nil
		})
		if err != nil {
			return nil, err
		}
		if _, err := roundtrip.Ask[struct{}](ctx, "go", "Sign in now?"); err != nil {
			return nil, err
		}
		return done(fmt.Sprint(len(first), " characters, the same in both rounds: ", first == kept))
	}
	play(handler, map[string]string{"go": `{"action":"accept","content":{}}`})
	// Output:
	// asked: Sign in now?
	// done: 32 characters, the same in both rounds: true
}

// FlowVersion comes first. When a flow's questions change, so does its version, and open flows
// restart.
func ExampleFlowVersion() {
	handler := func(ctx context.Context) (protocol.Result, error) {
		if err := roundtrip.FlowVersion(ctx, "2"); err != nil {
			return nil, err
		}
		if _, err := roundtrip.Ask[struct{}](ctx, "go", "Rename all files?"); err != nil {
			return nil, err
		}
		return done("renamed")
	}
	play(handler, map[string]string{"go": `{"action":"accept","content":{}}`})
	// Output:
	// asked: Rename all files?
	// done: renamed
}

// With IfPossible a tool uses a default if its client cannot be asked. AnswerWithin limits the
// wait.
func ExampleIfPossible() {
	handler := func(ctx context.Context) (protocol.Result, error) {
		type Region struct {
			Name string `json:"name" enum:"eu,us"`
		}
		region, err := roundtrip.Ask[Region](ctx, "region", "Which region?",
			roundtrip.IfPossible(), roundtrip.AnswerWithin(10*time.Minute))
		if mute := (*roundtrip.PushError)(nil); errors.As(err, &mute) {
			region = Region{Name: "eu"}
		} else if err != nil {
			return nil, err
		}
		return done("deployed to " + region.Name)
	}
	play(handler, map[string]string{"region": `{"action":"accept","content":{"name":"us"}}`})
	// Output:
	// asked: Which region?
	// done: deployed to us
}
