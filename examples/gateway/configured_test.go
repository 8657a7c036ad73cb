package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	frontdoor "github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestConfigured runs the gateway of a file before a server of the official SDK that pushes its
// questions, with clients of both eras.
func TestConfigured(t *testing.T) {
	sdk := officialServer()
	up := httptest.NewServer(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return sdk }, nil))
	defer up.Close()
	t.Setenv("ALICE_TOKEN", "a-token")
	endpoint, stop := startConfigured(t, map[string]any{
		"listen": "127.0.0.1:0", "users": map[string]string{"ALICE_TOKEN": "alice"},
		"upstreams": []any{map[string]any{"name": "data", "url": up.URL}},
		"limits":    map[string]any{"calls": 10},
	})
	defer stop()
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			if got := deployThrough(t, endpoint, era); got != "deployed to production: because" {
				t.Errorf("got %q", got)
			}
		})
	}
	response, err := http.Get(strings.TrimSuffix(endpoint, "/mcp") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	metrics, _ := io.ReadAll(response.Body)
	if !strings.Contains(string(metrics), `elicitation_resumes_total{outcome="done"}`) {
		t.Errorf("no such metric:\n%s", metrics)
	}
}

// TestConfigurationsThatCannotWork are refused with what is wrong.
func TestConfigurationsThatCannotWork(t *testing.T) {
	for want, f := range map[string]map[string]any{
		"unknown field":    {"upstream": nil},
		"at least one":     {},
		"a url or a comma": {"upstreams": []any{map[string]any{"name": "a"}}},
		"UNSET is not set": {"upstreams": []any{map[string]any{
			"name": "a", "url": "http://localhost", "token": "UNSET"}}},
		`"sms" is no kind`: {"upstreams": []any{map[string]any{
			"name": "a", "url": "http://localhost", "refuse": []string{"sms"}}}},
		"limits.calls of type":  {"limits": map[string]any{"calls": "many"}},
		"limits.calls: is":      {"limits": map[string]any{"calls": -1}},
		"limits.callsPerPrinci": {"limits": map[string]any{"callsPerPrincipal": -1}},
		"limits.connections: i": {"limits": map[string]any{"connections": -64}},
		"UNSET_KEYS":            {"keys": "UNSET_KEYS"},
		"a name begins wit": {"upstreams": []any{map[string]any{
			"name": "A", "url": "http://localhost"}}},
	} {
		err := runConfigured(t.Context(), writeFile(t, f), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// TestLimitsOfTheFileAreThoseOfTheGateway: each of them, those of the shipped file too.
func TestLimitsOfTheFileAreThoseOfTheGateway(t *testing.T) {
	limits := func(text string) (got [3]int) {
		var f file
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatal(err)
		}
		var opts frontdoor.Options
		if err := f.Limits.set(&opts); err != nil {
			t.Fatal(err)
		}
		return [3]int{opts.MaxCalls, opts.MaxCallsPerPrincipal, opts.MaxConnections}
	}
	all := `{"limits": {"calls": 1, "callsPerPrincipal": 2, "connections": 5}}`
	if got := limits(all); got != [3]int{1, 2, 5} {
		t.Errorf("got %v", got)
	}
	shipped, err := os.ReadFile("gateway.json")
	if err != nil {
		t.Fatal(err)
	}
	got := limits(string(shipped))
	if got[0] == 0 || got[1] == 0 || got[2] != 0 { // which differ by the kind of upstream
		t.Errorf("the shipped file has %v", got)
	}
}

// TestSettingsOfTheEnvironment: each is that of the gateway's questions, and one that cannot be
// used is refused at start by its name.
func TestSettingsOfTheEnvironment(t *testing.T) {
	path := writeFile(t, map[string]any{"listen": "127.0.0.1:0", "upstreams": []any{
		map[string]any{"name": "a", "url": "http://127.0.0.1:1/mcp"}}})
	for name, value := range map[string]string{"ELICITATION_TIMEOUT": "abc",
		"ELICITATION_MAX_CONCURRENT": "0", "ELICITATION_CLEANUP_INTERVAL": "-1s"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			err := run(t.Context(), []string{"-config", path}, io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Setenv("ELICITATION_TIMEOUT", "90")
	t.Setenv("ELICITATION_MAX_CONCURRENT", "7")
	t.Setenv("ELICITATION_CLEANUP_INTERVAL", "2m")
	opts, _, err := (&file{}).options(zap.NewNop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	got := opts.Elicitation
	if got.Timeout != 90*time.Second || got.MaxPending != 7 ||
		got.SweepInterval != 2*time.Minute {
		t.Errorf("got %+v", got)
	}
}

func writeFile(t *testing.T, f map[string]any) (path string) {
	t.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "gateway.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startConfigured runs the gateway of a file and returns its endpoint.
func startConfigured(t *testing.T, f map[string]any) (endpoint string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	path, ended := writeFile(t, f), make(chan error, 1)
	out, in := io.Pipe()
	go func() { ended <- runConfigured(ctx, path, in, io.Discard) }()
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(line[:n])) + "/mcp", func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func deployThrough(t *testing.T, endpoint string, era protocol.Era) string {
	t.Helper()
	transport, err := clienthttp.New(endpoint, &clienthttp.Options{
		Header: http.Header{"Authorization": {"Bearer a-token"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(transport, &client.Options{
		Era: era,
		ElicitForm: func(
			context.Context, *client.FormQuestion,
		) (*protocol.ElicitResult, error) {
			return client.Accept(map[string]string{"reason": "because"})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		result, err := c.CallTool(t.Context(), "data_deploy",
			map[string]string{"env": "production"})
		if err == nil {
			return result.Content[0].(*protocol.TextContent).Text
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
