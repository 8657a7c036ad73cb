//go:build node

package interop_test

import (
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestAttackOnServerEverything checks mcpattack's verdict on npm's server with all features.
func TestAttackOnServerEverything(t *testing.T) {
	dir := installed(t)
	script := dir.file("@modelcontextprotocol", "server-everything", "dist", "index.js")
	connect := func(string) (protocol.Peer, error) {
		return client.Command(exec.Command(dir.node(), script, "stdio"),
			&client.CommandOptions{Grace: 200 * time.Millisecond})
	}
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		v := judgeTool(t, era, "echo", json.RawMessage(`{"message":"hello"}`), connect)
		if v.Asks != 0 || !v.Complete {
			t.Errorf("echo, %s: %+v", era, v)
		}
	}
	// In revision 2026-07-28 the tool is not listed, because it cannot ask there.
	v := judgeTool(t, protocol.Legacy, "trigger-elicitation-request",
		json.RawMessage(`{}`), connect)
	if v.Asks != 1 || !v.Complete || len(v.Open) > 0 {
		t.Errorf("trigger-elicitation-request: %+v", v)
	}
}
