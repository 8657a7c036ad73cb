// Package reference is a server at the practical limit of net/http and encoding/json: it copies no
// payloads and writes prepared responses. It checks nothing, and serves only measured calls.
package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// New returns a server whose state is a constant as long as a sealed state.
func New() http.Handler { return newServer(false) }

// NewSealed returns a server that seals and opens the state of Deploy.
func NewSealed() http.Handler { return newServer(true) }

type server struct {
	sealer *wire.Sealer
	seals  bool
	json   []string // value of Content-Type
	// These are the parts of responses after the id.
	hello, deployed, deploy []byte
}

const place = "STATE" // stands for a sealed state

func newServer(seals bool) http.Handler {
	s := &server{sealer: wire.NewSealer(), seals: seals, json: []string{"application/json"},
		hello: complete(wire.Hello), deployed: complete(wire.Deployment().Deployed())}
	state := s.sealer.Seal(wire.Deploy, wire.DeployArguments)
	if seals {
		state = place
	}
	s.deploy = fmt.Appendf(nil, `,"result":{"resultType":"input_required","inputRequests":{%q:`+
		`{"method":"elicitation/create","params":%s}},"requestState":%q,%s}}`,
		wire.ConfirmKey, form(), state, serverInfo)
	return s
}

const serverInfo = `"_meta":{"io.modelcontextprotocol/serverInfo":` +
	`{"name":"bench","version":"1.0.0"}}`

func complete(text string) []byte {
	return fmt.Appendf(nil, `,"result":{"resultType":"complete","content":[`+
		`{"type":"text","text":%q}],%s}}`, text, serverInfo)
}

func form() []byte {
	return fmt.Appendf(nil, `{"mode":"form","message":%q,"requestedSchema":%s}`,
		wire.Deployment().Question(), wire.ConfirmSchema)
}

type request struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  struct {
		Name           string          `json:"name"`
		Arguments      json.RawMessage `json:"arguments"`
		Meta           json.RawMessage `json:"_meta"`
		InputResponses json.RawMessage `json:"inputResponses"`
		RequestState   string          `json:"requestState"`
	} `json:"params"`
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q request
	var rest []byte
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err == nil {
		rest, err = s.answer(&q)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	const start = `{"jsonrpc":"2.0","id":`
	out := make([]byte, 0, len(start)+len(q.ID)+len(rest))
	w.Header()["Content-Type"] = s.json
	_, _ = w.Write(append(append(append(out, start...), q.ID...), rest...))
}

func (s *server) answer(q *request) ([]byte, error) {
	p := &q.Params
	switch {
	case p.Name == wire.Echo:
		return s.hello, nil
	case p.Name != wire.Deploy:
		return nil, fmt.Errorf("no such tool: %q", p.Name)
	case p.RequestState == "" && s.seals:
		return bytes.Replace(s.deploy, []byte(place),
			[]byte(s.sealer.Seal(wire.Deploy, string(p.Arguments))), 1), nil
	case p.RequestState == "":
		return s.deploy, nil
	case s.seals:
		return s.deployed, s.sealer.Open(p.RequestState, wire.Deploy, string(p.Arguments))
	}
	return s.deployed, nil
}
