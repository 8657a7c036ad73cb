//go:build node

package interop_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/proctest"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestGatewayTS: two processes with the TypeScript client, of either generation.
func TestGatewayTS(t *testing.T) {
	for module, negotiate := range map[string]any{"client": "legacy", "sdk": nil} {
		t.Run(module, func(t *testing.T) {
			throughGateway(t, func(t *testing.T, endpoint string, who *person) peer {
				return startTS(t, module).connect(t, who,
					map[string]any{"endpoint": endpoint, "mute": false, "negotiate": negotiate})
			})
		})
	}
}

// TestGatewayBeforeServerEverything: examples/gateway before the server of npm that has all
// features, over HTTP and as child processes, and two users at once with clients of either
// generation.
func TestGatewayBeforeServerEverything(t *testing.T) {
	dir, gateway := installed(t), buildExample(t, "gateway")
	script := dir.file("@modelcontextprotocol", "server-everything", "dist", "index.js")
	p := proctest.Start(t, exec.Command(gateway, "-serve", "127.0.0.1:0",
		"-user", "t1=alice", "-user", "t2=bob",
		"-upstream", "web="+serveNodeEverything(t, dir, script),
		"-upstream", "pipe=stdio:"+dir.node()+" "+script+" stdio"))
	t.Cleanup(func() { _ = p.Cmd.Process.Signal(os.Interrupt) }) // its input is nothing to it
	endpoint := p.Line() + "/mcp"
	for module, negotiate := range map[string]any{"client": "auto", "sdk": nil} {
		for _, upstream := range []string{"web", "pipe"} {
			t.Run(module+"/"+upstream, func(t *testing.T) {
				var users sync.WaitGroup
				for token, name := range map[string]string{"t1": "alice", "t2": "bob"} {
					who := newPerson(t, answers{
						"Please provide inputs for the following fields:": fmt.Sprintf(
							`{"name":%q,"check":true}`, name),
						"Sign in, " + name: "{}",
					})
					client := startTS(t, module).connect(t, who, map[string]any{
						"endpoint": endpoint, "mute": false, "negotiate": negotiate,
						"headers": map[string]string{"Authorization": "Bearer " + token},
					})
					users.Go(func() { useServerEverything(t, client, upstream, name) })
				}
				users.Wait()
			})
		}
	}
}

// serveNodeEverything starts the server over HTTP and returns its endpoint.
func serveNodeEverything(t *testing.T, dir nodeDir, script string) (endpoint string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	cmd := exec.Command(dir.node(), script, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	p := proctest.Start(t, cmd)
	t.Cleanup(func() { _ = p.Cmd.Process.Signal(os.Interrupt) })
	p.Line() // it starts
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
			return "http://127.0.0.1:" + port + "/mcp"
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// useServerEverything has one user asked in a form and by URL, and shown progress.
func useServerEverything(t *testing.T, client tsClient, upstream, name string) {
	for _, call := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"trigger-elicitation-request", map[string]any{}, "- Name: " + name + "\n"},
		{"trigger-url-elicitation", map[string]any{"url": "https://example.com/" + name,
			"message": "Sign in, " + name}, "accept"},
		{"trigger-long-running-operation", map[string]any{"duration": 0.2, "steps": 4},
			"Long running operation completed"},
	} {
		got, err := client.tell(within(t, patience), "request", map[string]any{
			"method": protocol.MethodCallTool, "target": upstream + "_" + call.tool,
			"args": call.args, "progress": true,
		})
		if err != nil || !strings.Contains(got, call.want) {
			t.Errorf("%s, %s: got %q, %v, want %q", name, call.tool, got, err, call.want)
		}
	}
	client.who.wantAsked(1)
	if len(client.who.progress) < 3 { // of four steps: the last comes with the result
		t.Errorf("%s: got %d reports of progress", name, len(client.who.progress))
	}
}
