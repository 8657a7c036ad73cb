package interop_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/server"
)

// If one of these variables is set, the program is a server on standard input and output.
const (
	asSubject  = "RONDO_INTEROP_SUBJECT"
	asOfficial = "RONDO_INTEROP_OFFICIAL" // "pushed" or "returned"
	asMCPGo    = "RONDO_INTEROP_MCPGO"    // "pushed" or "returned"
	asHosted   = "RONDO_INTEROP_HOSTED"   // name of one of hostedServers
	asTasks    = "RONDO_INTEROP_TASKS"
	asReplica  = "RONDO_INTEROP_REPLICA"  // "official" or "mcp-go"
	asSurveyed = "RONDO_INTEROP_SURVEYED" // name of a server, see serveSurveyed
)

var noError = testkit.NoError

func TestMain(m *testing.M) {
	// A server in a test must not write to its standard error.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	var err error
	switch {
	case os.Getenv(asSubject) != "":
		srv, failed := newServer(guarded, server.Options{})
		if err = failed; err == nil {
			err = srv.ServeStdio(context.Background())
		}
	case os.Getenv(asTasks) != "":
		srv, failed := newTasks()
		if err = failed; err == nil {
			err = srv.ServeStdio(context.Background())
		}
	case os.Getenv(asOfficial) != "":
		err = newGoSDKServer(os.Getenv(asOfficial) == "pushed").Run(context.Background(),
			&mcp.StdioTransport{})
	case os.Getenv(asMCPGo) != "":
		runMCPGo(context.Background(), line{os.Stdin, os.Stdout}, os.Getenv(asMCPGo) == "pushed")
	case os.Getenv(asHosted) != "":
		err = serveHosted(os.Getenv(asHosted))
	case os.Getenv(asReplica) != "":
		err = serveReplica(os.Getenv(asReplica), os.Stdin, os.Stdout)
	case os.Getenv(asSurveyed) != "":
		err = serveSurveyed(context.Background(), os.Getenv(asSurveyed))
	default:
		testkit.Main(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
