package gosdk_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// Whoever installs twice is told, and nobody is let through.
func TestSecondInstallIsReported(t *testing.T) {
	var bugs observer
	server := single(t, asks(toolText("done")))
	if _, err := gosdk.Install(server,
		&gosdk.Options{Options: roundtrip.Options{Observer: &bugs}}); err != nil {
		t.Fatal(err)
	}
	dialWire(t, server).call("t", "").wantError(protocol.CodeInternalError, 200)
}
