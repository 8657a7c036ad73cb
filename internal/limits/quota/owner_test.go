package quota_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// However a name is split into issuer and subject, the encodings differ. Anonymous has no digest.
func TestPrincipalsAreKeptApart(t *testing.T) {
	principals := map[string]protocol.Principal{
		"anonymous":             {},
		"local":                 protocol.LocalPrincipal(),
		"subject alone":         {Subject: "ab"},
		"issuer alone":          {Issuer: "ab"},
		"both":                  {Issuer: "a", Subject: "b"},
		"length in the issuer":  {Issuer: "\x01a", Subject: "b"},
		"length in the subject": {Issuer: "a", Subject: "\x01b"},
		"called local":          {Subject: "local"},
		"zero byte":             {Issuer: "a\x00", Subject: "b"},
		"zero byte, moved":      {Issuer: "a", Subject: "\x00b"},
	}
	encodings, digests := map[string]string{}, map[string]string{}
	for name, p := range principals {
		encoding, digest := string(quota.AppendPrincipal(nil, p)), quota.OwnerDigest(p)
		if other, ok := encodings[encoding]; ok {
			t.Errorf("%q and %q are both encoded as %q", name, other, encoding)
		}
		if other, ok := digests[digest]; ok {
			t.Errorf("%q and %q both have digest %q", name, other, digest)
		}
		encodings[encoding], digests[digest] = name, name
		if anonymous := name == "anonymous"; (digest == "") != anonymous {
			t.Errorf("%q has digest %q", name, digest)
		}
	}
}

// Claims hold principals in the middle.
func TestEncodingIsAppended(t *testing.T) {
	p := protocol.Principal{Issuer: "https://id.example", Subject: "ann"}
	want := "head" + "\x01" + "\x12https://id.example" + "\x03ann"
	wantEqual(t, "label", string(quota.AppendPrincipal([]byte("head"), p)), want)
}

// Keys for one purpose do not fit another.
func TestLabelsDifferByPurpose(t *testing.T) {
	p := protocol.Principal{Subject: "ann"}
	if a, b := string(quota.OwnerLabel(p, "id")), string(quota.OwnerLabel(p, "key")); a == b {
		t.Errorf("both labels are %q", a)
	}
}
