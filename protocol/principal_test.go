package protocol_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

func TestPrincipal(t *testing.T) {
	for _, tc := range []struct {
		name      string
		principal protocol.Principal
		anonymous bool
		want      string
	}{
		{"nobody", protocol.Principal{}, true, "anonymous"},
		{"local", protocol.LocalPrincipal(), false, "local"},
		{"without issuer", protocol.Principal{Subject: "ada"}, false, "ada"},
		{"with issuer", protocol.Principal{Issuer: "https://issuer.example", Subject: "ada"}, false,
			"https://issuer.example ada"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.principal.String(); got != tc.want ||
				tc.principal.Anonymous() != tc.anonymous {
				t.Errorf("%q, anonymous %v; want %q, %v", got, tc.principal.Anonymous(), tc.want,
					tc.anonymous)
			}
		})
	}
}
