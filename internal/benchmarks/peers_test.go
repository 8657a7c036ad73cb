package benchmarks_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// TestServers holds that all servers give the same answers: nothing is worth
// comparing otherwise.
func TestServers(t *testing.T) {
	for _, s := range measure.Servers() {
		t.Run(s.Name, func(t *testing.T) {
			if err := wire.Check(wire.NewHandler(s.New()).Do, s.Seals); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCheckFindsMistakes changes one thing in the answers of a server that is
// right, and asks one that seals nothing to refuse.
func TestCheckFindsMistakes(t *testing.T) {
	if err := wire.Check(wire.NewHandler(measure.Servers()[0].New()).Do, true); err == nil {
		t.Error("a server that accepts any state is taken for one that seals")
	}
	for _, test := range []struct{ name, old, new string }{
		{"text", wire.Hello, "hello"},
		{"result type", `"complete"`, `"done"`},
		{"error", `"result":`, `"error":`},
		{"id", `"id":1000000000`, `"id":1000000001`},
		{"message", wire.Deployment().Question(), "Go on?"},
		{"form", `"required":["approve"]`, `"required":[]`},
		{"mode", `"mode":"form"`, `"mode":"url"`},
		{"method", `"elicitation/create"`, `"sampling/createMessage"`},
		{"key", `"confirm":{`, `"Confirm":{`},
		{"state", `"requestState":"`, `"state":"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := measure.Servers()[0].New()
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

// TestLoopback does flows over a connection, with responses that have a length
// and such that come in chunks.
func TestLoopback(t *testing.T) {
	for _, s := range measure.Servers() {
		t.Run(s.Name, func(t *testing.T) {
			out, addr := io.Pipe()
			in, stop := io.Pipe()
			served := make(chan error, 1)
			go func() { served <- wire.Serve(s.New(), in, addr) }()
			var listening string
			if _, err := fmt.Fscanln(out, &listening); err != nil {
				t.Fatal(err)
			}
			conn, err := wire.Dial(listening)
			if err != nil {
				t.Fatal(err)
			}
			do := func(c wire.Call, state []byte) (int, []byte) {
				status, response, err := conn.Do(c, state)
				if err != nil {
					t.Fatal(err)
				}
				return status, response
			}
			if err := wire.Check(do, s.Seals); err != nil {
				t.Error(err)
			}
			conn.Close()
			stop.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}
