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

// Keys differ even if names do not.
func TestKeysOfPrincipalsDiffer(t *testing.T) {
	parts := []string{"", " ", "a", "b", "a b", `"`, `" "`, `\`, "local", "anonymous", "\xff", "\ufffd"}
	keys := map[string]protocol.Principal{}
	add := func(p protocol.Principal) {
		if other, taken := keys[p.Key()]; taken {
			t.Errorf("%#v and %#v have the key %s", p, other, p.Key())
		}
		keys[p.Key()] = p
	}
	add(protocol.LocalPrincipal())
	for _, issuer := range parts {
		for _, subject := range parts {
			add(protocol.Principal{Issuer: issuer, Subject: subject})
		}
	}
}
