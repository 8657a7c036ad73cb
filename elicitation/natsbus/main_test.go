package natsbus_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/rondo-mcp/rondo/internal/leaktest"
)

func TestMain(m *testing.M) {
	if urls := os.Getenv(gatewayVar); urls != "" {
		if err := serveGateway(urls); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}
