package gateway_test

import (
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation/gateway"
)

func TestASecondClaimIsRefused(t *testing.T) {
	var claims gateway.NameClaims
	if _, err := claims.Add("docs", []string{"search", "ops_run"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		upstream   string
		unprefixed []string
		want       string
	}{
		{"docs", nil, "two of this name"},
		{"a_b", nil, "lower-case"},
		{"", nil, "lower-case"},
		{strings.Repeat("a", 65), nil, "lower-case"},
		{"other", []string{"search"}, `claimed by "docs" and "other"`},
		{"alone", []string{"search"}, `claimed by "docs" and "alone"`},
		{"other", []string{"x", "x"}, `claimed by "other" and "other"`},
		{"other", []string{""}, "empty"},
		{"other", []string{"docs_x"}, `read as a tool of "docs"`},
		{"other", []string{"other_x"}, `read as a tool of "other"`},
		{"ops", nil, `"ops_run" of "docs"`},
	} {
		if _, err := claims.Add(c.upstream, c.unprefixed); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%q with %q: got %v, want %s", c.upstream, c.unprefixed, err, c.want)
		}
	}
	if _, err := claims.Add("other", []string{"_x", "x"}); err != nil { // the failed Add had no effect
		t.Error(err)
	}
}

func TestPublishedNamesAndURIsHaveOneReading(t *testing.T) {
	var claims gateway.NameClaims
	a, errA := claims.Add("a", []string{"c"})
	ab, errB := claims.Add("a.b", nil)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	owners := map[string]string{}
	for who, n := range map[string]*gateway.UpstreamNames{"a": a, "a.b": ab} {
		for _, own := range []string{"", "c", "_c", "b_c", "a_c", ".b_c", "+c", "ui://c",
			"ui://b/c", "ui://a/c", "ui+ui://c"} {
			for _, name := range []string{n.Publish(own), n.PublishURI(own)} {
				if other, taken := owners[name]; taken {
					t.Errorf("%q of %s and %s", name, other, who)
				}
				owners[name] = who + " " + own
			}
			if got, ok := n.OwnURI(n.PublishURI(own)); !ok || got != own {
				t.Errorf("%q comes back as %q, %v", own, got, ok)
			}
		}
	}
	if a.Publish("c") != "c" || ab.Publish("c") != "a.b_c" {
		t.Errorf("got %q and %q", a.Publish("c"), ab.Publish("c"))
	}
	if own, ok := a.OwnURI(ab.PublishURI("x")); ok {
		t.Errorf("a reads a URI of a.b as its own %q", own)
	}
}

func TestURIsOfAppsKeepTheirScheme(t *testing.T) {
	var claims gateway.NameClaims
	n, err := claims.Add("docs", nil)
	noError(t, err)
	wantEqual(t, "published", n.PublishURI("ui://w/view"), "ui://docs/w/view")
	const meta = `{"ui":{"resourceUri":"ui://w/view"},"t":"ui:\/\/w",` +
		`"other":"a ui://w","x":"gui:"}`
	const want = `{"ui":{"resourceUri":"ui://docs/w/view"},"t":"ui:\/\/docs/w",` +
		`"other":"a ui://w","x":"gui:"}`
	wantEqual(t, "published", string(n.PublishAppURIs([]byte(meta))), want)
}
