package gosdk_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// Whoever installs two adapters is told, and nobody is let through.
func TestSecondAdapterIsReported(t *testing.T) {
	var bugs observer
	server := single(t, asks(toolText("done")))
	installWith(t, server, &gosdk.Options{Options: roundtrip.Options{Observer: &bugs}})
	dialWire(t, server).call("t", "").wantError(protocol.CodeInternalError, 200)
}
