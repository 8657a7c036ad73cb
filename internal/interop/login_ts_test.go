//go:build node

package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/server/bearer"
)

// dialAuthorizedTS starts a client of a generation of the TypeScript SDK. It has its own browser.
func dialAuthorizedTS(t *testing.T, generation, endpoint, revision string) caller {
	t.Helper()
	p := startNode(t, "login.mjs", generation, endpoint, revision)
	return func(_ context.Context, tool string) (string, error) {
		if _, err := io.WriteString(p.In, tool+"\n"); err != nil {
			return "", err
		}
		var said struct{ Text, Error string }
		if err := json.Unmarshal([]byte(p.Line()), &said); err != nil {
			return "", err
		}
		if said.Error != "" {
			return "", errors.New(said.Error)
		}
		return said.Text, nil
	}
}

// Like Go's clients, the TypeScript SDK's log in to our server and step up. If a scope is missing,
// the older generation uses its refresh token, which cannot add one.
func TestTSClientsLogInToOurServer(t *testing.T) {
	for _, of := range []struct {
		name, generation, revision string
		stepsUp                    bool
	}{
		{"client " + tsClientVersion + "/" + modern, "client", modern, true},
		{"client " + tsClientVersion + "/" + v20251125, "client", v20251125, true},
		{"sdk " + tsSDKVersion + "/" + v20251125, "sdk", v20251125, false},
	} {
		t.Run(of.name, func(t *testing.T) {
			as := oauthtest.NewServer(t, nil)
			endpoint := protectedRondo(t, bearer.Issuer{URL: as.URL})
			call := dialAuthorizedTS(t, of.generation, endpoint, of.revision)
			if of.stepsUp {
				logInAndStepUp(t, as, call)
				return
			}
			ctx := within(t, patience)
			if got, err := call(ctx, "read"); err != nil || got != "read for alice" {
				t.Errorf("got %q, %v", got, err)
			}
			got, err := call(ctx, "write")
			if err == nil || as.Count(oauthtest.Refresh) == 0 {
				t.Errorf("it steps up now, without a refresh: %q, %v", got, err)
			}
			t.Logf("does not step up: %v", err)
		})
	}
}
