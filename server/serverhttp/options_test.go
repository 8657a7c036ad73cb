package serverhttp_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestNumbersOfOptions: 0 is the default, a negative number turns something off, unless
// nothing else bounds the memory that clients can take.
func TestNumbersOfOptions(t *testing.T) {
	servertest.CheckNumberFields(t, map[string]bool{
		"Limits.BodyBytes": false, "ReadTimeout": false,
		"SessionTimeout": false, "Limits.SessionsPerPrincipal": false,
		"Limits.Sessions": true, "Limits.RequestsPerSession": true,
	}, func(opts *serverhttp.Options) error {
		_, err := serverhttp.New(newServer(t, nil), opts)
		return err
	})
}
