package benchmarks_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// TestServers checks that all servers give the same answers. Otherwise they are not comparable.
func TestServers(t *testing.T) {
	for _, s := range servers() {
		t.Run(s.name, func(t *testing.T) {
			d := wire.NewHandler(s.newServer())
			check := func(c wire.Call, state []byte, wants ...string) []byte {
				t.Helper()
				status, response := d.Do(c, state)
				for _, want := range append(wants, `"id":1000000000`, `"result":`) {
					if status != http.StatusOK || !bytes.Contains(response, []byte(want)) {
						t.Fatalf("%s: status %d, want %s in %s", c.Tool, status, want, response)
					}
				}
				return bytes.Clone(wire.State(response))
			}
			check(wire.EchoCall(), nil, `"complete"`, `"text":"`+wire.Hello+`"`)
			state := check(wire.DeployCall(), nil, `"input_required"`, `"elicitation/create"`,
				`"message":"`+wire.Deployment().Question()+`"`, `"requestState":"`,
				`"`+wire.ConfirmKey+`":{`, `"approve":{`, `"required":["approve"]`)
			check(wire.DeployAnswer(), state, `"complete"`,
				`"text":"`+wire.Deployment().Deployed()+`"`)
			for _, i := range []int{len(state) / 3, len(state) / 2} {
				changed := bytes.Clone(state)
				if changed[i]++; changed[i] > 'a' {
					changed[i] = 'A'
				}
				_, response := d.Do(wire.DeployAnswer(), changed)
				if deployed := []byte(wire.Deployment().Deployed()); s.seals &&
					bytes.Contains(response, deployed) {
					t.Errorf("a changed state is accepted: %s", response)
				}
			}
		})
	}
}
