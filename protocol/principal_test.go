package protocol_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

func TestPrincipal(t *testing.T) {
	for _, tc := range []struct {
		principal protocol.Principal
		anonymous bool
		want      string
	}{
		{protocol.Principal{}, true, "anonymous"},
		{protocol.LocalPrincipal(), false, "local"},
		{protocol.Principal{Subject: "ada"}, false, "ada"},
		{protocol.Principal{Issuer: "https://issuer.example", Subject: "ada"}, false,
			"https://issuer.example ada"},
	} {
		if got := tc.principal.String(); got != tc.want ||
			tc.principal.Anonymous() != tc.anonymous {
			t.Errorf("%q, anonymous %v; want %q, %v", got, tc.principal.Anonymous(), tc.want,
				tc.anonymous)
		}
	}
}
