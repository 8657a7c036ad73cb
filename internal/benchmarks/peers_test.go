package benchmarks_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// TestServers holds that all servers give the same answers: nothing is worth
// comparing otherwise.
func TestServers(t *testing.T) {
	for _, s := range servers() {
		t.Run(s.name, func(t *testing.T) {
			if err := wire.Check(wire.NewHandler(s.newModern()).Do, s.seals); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCheckFindsMistakes changes one thing in the answers of a server that is
// right, and asks one that seals nothing to refuse.
func TestCheckFindsMistakes(t *testing.T) {
	if err := wire.Check(wire.NewHandler(servers()[0].newModern()).Do, true); err == nil {
		t.Error("a server that accepts any state is taken for one that seals")
	}
	for _, test := range []struct{ name, old, new string }{
		{"text", wire.Hello, "hello"},
		{"error", `"result":`, `"error":`},
		{"id", `"id":1000000000`, `"id":1000000001`},
		{"form", `"required":["approve"]`, `"required":[]`},
		{"state", `"requestState":"`, `"state":"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := servers()[0].newModern()
			changed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, r)
				_, _ = w.Write(bytes.Replace(rec.Body.Bytes(), []byte(test.old), []byte(test.new),
					1))
			})
			if err := wire.Check(wire.NewHandler(changed).Do, false); err == nil {
				t.Errorf("a server that says %s instead of %s passes", test.new, test.old)
			}
		})
	}
}
