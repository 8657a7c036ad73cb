// Everything-client is the client that the conformance suite drives. The suite starts it once per
// scenario, with a server's URL as last argument and instructions in the environment; see run.sh.
//
//	export MCP_CONFORMANCE_SCENARIO=tools_call
//	go run ./internal/conformance/everything-client http://127.0.0.1:8080/mcp
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
)

// limit is a scenario's time, shorter than the suite's, so that hangs are reported here.
const limit = 20 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "everything-client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: everything-client URL, with MCP_CONFORMANCE_SCENARIO set")
	}
	name := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	known := scenarios()
	scenario, ok := known[name]
	if !ok {
		return fmt.Errorf("scenario %q is none of %q", name, slices.Sorted(maps.Keys(known)))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	endpoint := args[len(args)-1]
	more := json.RawMessage(os.Getenv("MCP_CONFORMANCE_CONTEXT"))
	source, err := newSource(ctx, endpoint, name, more)
	if err != nil {
		return err
	}
	opts, declared := new(clienthttp.Options), options()
	if source != nil {
		opts.Authorizer, declared.Extensions = source, source.Extensions()
	}
	transport, err := clienthttp.New(endpoint, opts)
	if err != nil {
		return err
	}
	c, err := client.New(transport, declared)
	if err != nil {
		return err
	}
	defer c.Close()
	return scenario(ctx, c, more)
}

// The options answer every kind of question without a user, and so declare all capabilities.
func options() *client.Options {
	return &client.Options{
		Info:          protocol.Implementation{Name: "everything-client", Version: "1.0.0"},
		ElicitForm:    agree,
		CreateMessage: say,
		ListRoots: func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
			return []protocol.Root{{URI: "file:///everything", Name: "Everything"}}, nil
		},
	}
}

// The function say stands in for a model.
func say(context.Context, *client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
	return &protocol.CreateMessageResult{
		Role: protocol.Assistant, Model: "none", StopReason: "endTurn",
		Content: []protocol.Content{&protocol.TextContent{Text: "Nothing to say."}},
	}, nil
}

// agree accepts every form: yes to yes or no, otherwise defaults, which the client fills in. If a
// value is still missing, the call fails: the client sends no invalid answer.
func agree(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
	var form struct {
		Properties map[string]struct {
			Type    string          `json:"type"`
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(q.Schema, &form); err != nil {
		return nil, err
	}
	content := map[string]any{}
	for name, field := range form.Properties {
		if field.Type == "boolean" && field.Default == nil {
			content[name] = true
		}
	}
	return client.Accept(content)
}
