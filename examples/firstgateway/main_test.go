package main

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestGateway runs the gateway, calls a tool with and without the token, and ends the gateway.
func TestGateway(t *testing.T) {
	t.Setenv("GATEWAY_TOKENS", "ann:her-token,bob:the-token")
	t.Setenv("GATEWAY_KEYS", "a:"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	srv, err := server.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(srv, server.Tool{Name: "hello"}, func(
		context.Context, *server.ToolCall, struct{},
	) (protocol.CallToolOutcome, error) {
		return server.Text("hello"), nil
	})
	handler, err := serverhttp.New(srv, nil)
	if err != nil {
		t.Fatal(err)
	}
	up := httptest.NewServer(handler)
	defer up.Close()
	var free [2]string // addresses
	for i := range free {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		free[i] = listener.Addr().String()
		listener.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, zap.NewNop(), free[0], free[1], []gateway.Upstream{
			{Name: "web", Connect: gateway.HTTP(up.URL, nil)}})
	}()
	endpoint := "http://" + free[0] + "/mcp"
	var result *protocol.CallToolResult
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if result, err = call(t, endpoint, "the-token"); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if text := result.Content[0].(*protocol.TextContent).Text; text != "hello" {
		t.Errorf("got %q", text)
	}
	if _, err := call(t, endpoint, "another"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with another token: %v", err)
	}
	response, err := http.Get("http://" + free[1] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	metrics, _ := io.ReadAll(response.Body)
	for _, name := range []string{"elicitation_parked", "_requests_total"} {
		if !strings.Contains(string(metrics), name) {
			t.Errorf("there is no metric %s in\n%s", name, metrics)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestASettingThatCannotBeUsedIsRefusedAtStart(t *testing.T) {
	t.Setenv("GATEWAY_KEYS", "a:"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	t.Setenv("ELICITATION_TIMEOUT", "abc")
	err := run(t.Context(), zap.NewNop(), "127.0.0.1:0", "127.0.0.1:0", []gateway.Upstream{
		{Name: "web", Connect: gateway.HTTP("http://127.0.0.1:1/mcp", nil)}})
	if err == nil || !strings.Contains(err.Error(), "ELICITATION_TIMEOUT") {
		t.Errorf("got %v", err)
	}
}

func call(t *testing.T, endpoint, token string) (*protocol.CallToolResult, error) {
	t.Helper()
	transport, err := clienthttp.New(endpoint, &clienthttp.Options{
		Header: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.CallTool(t.Context(), "web_hello", nil)
}
