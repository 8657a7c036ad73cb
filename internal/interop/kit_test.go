package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestKit uses package roundtriptest on hosted servers, in both eras. Their tools ask two dependent
// questions and then act. They ask by the SDK's own methods, or by those of package roundtrip.
func TestKit(t *testing.T) {
	const ttl = 2 * time.Second
	for sdk, host := range map[string]func(bool, *roundtriptest.Effects, hosted.Options) (
		*hosted.Server, error){"official": kitOfficial, "mcp-go": kitMCPGo} {
		for style, keys := range map[string][2]string{"ask": {"region", "sure"},
			"push": {"question-1", "question-2"}} {
			t.Run(sdk+"/"+style, func(t *testing.T) {
				effects := &roundtriptest.Effects{}
				front, err := host(style == "push", effects, hosted.Options{
					Server: server.Options{Roundtrip: roundtrip.Options{
						Guard: store.NewMemoryGuard(0), RoundTTL: ttl,
						MinHumanTime: -1, // a test answers at once
					}}})
				noError(t, err)
				t.Cleanup(func() { _ = front.Close() })
				handler, err := front.Handler(&serverhttp.Options{
					Authenticate: func(r *http.Request) (protocol.Principal, error) {
						return protocol.Principal{Subject: r.Header.Get("X-User")}, nil
					}})
				noError(t, err)
				endpoint, _ := listen(t, handler)
				subject := roundtriptest.Subject{Effects: effects, SingleUse: true, TwoUsers: true,
					Later: func(time.Duration) { <-time.After(ttl + ttl/10) },
					Connect: func(t testing.TB, user string) protocol.Peer {
						over, err := clienthttp.New(endpoint, &clienthttp.Options{
							Header: http.Header{"X-User": {"u" + user}}})
						noError(t, err)
						return over
					}}
				flows := kitFlows(keys)
				roundtriptest.Run(t, subject, flows...)
				roundtriptest.Attack(t, subject, flows[0])
			})
		}
	}
}

// kitFlows returns the tool's flows. Its questions have these keys.
func kitFlows(keys [2]string) []roundtriptest.Flow {
	request := roundtriptest.Tool("provision", map[string]string{"name": "books"})
	region := roundtriptest.Accept(map[string]string{"name": "eu"})
	return []roundtriptest.Flow{
		{Name: "accept", Request: request, Want: "books in eu: it is tested",
			Answers: roundtriptest.Answers{keys[0]: region,
				keys[1]: roundtriptest.Accept(map[string]string{"reason": "it is tested"})}},
		{Name: "decline", Request: request, Fails: "sure",
			Answers: roundtriptest.Answers{keys[0]: region, keys[1]: roundtriptest.Decline()}},
	}
}

type (
	kitRegion struct {
		Name string `json:"name" enum:"eu,us"`
	}
	kitReason struct {
		Reason string `json:"reason" minLength:"3"`
	}
)

// A kitPush asks by an SDK's method. It returns the accepted content, or nil after a refusal.
type kitPush func(ctx context.Context, message string, schema json.RawMessage) (
	map[string]any, error)

func kitProvision(ctx context.Context, effects *roundtriptest.Effects, name string,
	push kitPush) (string, error) {
	var region kitRegion
	var sure kitReason
	var err error
	if push != nil {
		region, sure, err = kitPushBoth(ctx, push)
	} else if region, err = roundtrip.Ask[kitRegion](ctx, "region", "Which region?"); err == nil {
		sure, err = roundtrip.Ask[kitReason](ctx, "sure", "In "+region.Name+"?")
	}
	if err != nil {
		return "", err
	}
	effects.Mark("provision")
	return name + " in " + region.Name + ": " + sure.Reason, nil
}

func kitPushBoth(ctx context.Context, push kitPush) (region kitRegion, sure kitReason, err error) {
	answer, err := push(ctx, "Which region?", json.RawMessage(`{"type":"object",`+
		`"properties":{"name":{"type":"string","enum":["eu","us"]}},"required":["name"]}`))
	if err != nil || answer == nil {
		return region, sure, errors.Join(err, errors.New("region"))
	}
	region.Name = fmt.Sprint(answer["name"])
	answer, err = push(ctx, "In "+region.Name+"?", json.RawMessage(`{"type":"object",`+
		`"properties":{"reason":{"type":"string","minLength":3}},"required":["reason"]}`))
	if err != nil || answer == nil {
		return region, sure, errors.Join(err, errors.New("sure"))
	}
	sure.Reason = fmt.Sprint(answer["reason"])
	return region, sure, nil
}

func kitOfficial(push bool, effects *roundtriptest.Effects, opts hosted.Options) (
	*hosted.Server, error) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "kit", Version: "1.0.0"}, nil)
	type input struct {
		Name string `json:"name"`
	}
	mcp.AddTool(srv, &mcp.Tool{Name: "provision"}, func(ctx context.Context,
		req *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		var elicit kitPush
		if push {
			elicit = func(ctx context.Context, message string, schema json.RawMessage) (
				map[string]any, error) {
				answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: message,
					RequestedSchema: schema})
				if err != nil || answer.Action != "accept" {
					return nil, err
				}
				return answer.Content, nil
			}
		}
		text, err := kitProvision(ctx, effects, in.Name, elicit)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	return gosdk.New(srv, &gosdk.Options{Options: opts})
}

func kitMCPGo(push bool, effects *roundtriptest.Effects, opts hosted.Options) (
	*hosted.Server, error) {
	srv := mcpgoserver.NewMCPServer("kit", "1.0.0", mcpgoserver.WithElicitation())
	var elicit kitPush
	if push {
		elicit = func(ctx context.Context, message string, schema json.RawMessage) (
			map[string]any, error) {
			answer, err := srv.RequestElicitation(ctx, mcpgomcp.ElicitationRequest{
				Params: mcpgomcp.ElicitationParams{Message: message, RequestedSchema: schema}})
			if err != nil || answer.Action != mcpgomcp.ElicitationResponseActionAccept {
				return nil, err
			}
			content, _ := answer.Content.(map[string]any)
			return content, nil
		}
	}
	srv.AddTool(mcpgomcp.NewTool("provision", mcpgomcp.WithString("name")),
		func(ctx context.Context, req mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult, error) {
			text, err := kitProvision(ctx, effects, req.GetString("name", ""), elicit)
			if err != nil {
				return mcpgomcp.NewToolResultError(err.Error()), nil
			}
			return mcpgomcp.NewToolResultText(text), nil
		})
	return mcpgo.New(srv, &opts)
}
