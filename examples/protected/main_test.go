package main

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// story is the output of run, with URL instead of addresses.
const story = `client    calls list_notes
server    401 Bearer scope="notes:read", resource_metadata="URL/.well-known/oauth-protected-resource/mcp"
client    opens the browser: it needs "notes:read"
client    has registered with the authorization server
browser   alice consents to "notes:read"
client    has a token and sends the same request again
client    gets "no notes yet"
client    calls add_note
server    403 Bearer error="insufficient_scope", error_description="more scopes are needed", scope="notes:read notes:write", resource_metadata="URL/.well-known/oauth-protected-resource/mcp"
client    opens the browser: it needs "notes:read notes:write"
browser   alice consents to "notes:read notes:write"
client    has a token and sends the same request again
client    gets "noted"
client    calls list_notes
client    gets "buy milk"
client    has logged out
`

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

func TestRunTellsTheStory(t *testing.T) {
	var out bytes.Buffer
	testkit.NoError(t, run(t.Context(), &out))
	if got := address.ReplaceAllString(out.String(), "URL"); got != story {
		t.Errorf("got\n%s\nwant\n%s", got, story)
	}
}
