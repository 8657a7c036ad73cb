// Package reference is the practical limit of a server and a client on
// net/http and encoding/json: they read the message they are sent, keeping
// payloads as they are, and write what was prepared beforehand. They check
// nothing, validate nothing, and serve only what is measured.
package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// New returns a server whose state is a constant, as long as one that is
// sealed.
func New() http.Handler { return newServer(false) }

// NewSealed returns a server that seals the state of Deploy, and opens it.
func NewSealed() http.Handler { return newServer(true) }

type server struct {
	sealer *wire.Sealer
	seals  bool
	json   []string // the value of Content-Type
	// What follows the id in a response.
	hello, ok, deployed, deploy []byte
	survey, surveyed            map[int][]byte
}

// place is where a sealed state goes.
const place = "STATE"

func newServer(seals bool) http.Handler {
	s := &server{sealer: wire.NewSealer(), seals: seals, json: []string{"application/json"},
		survey: map[int][]byte{}, surveyed: map[int][]byte{}}
	s.hello, s.ok = complete(wire.Hello), complete("ok")
	s.deployed = complete(wire.Deployed(wire.Environment, wire.Release))
	state := s.sealer.Seal(wire.Deploy, wire.Environment+wire.Release)
	if seals {
		state = place
	}
	s.deploy = required(question(wire.ConfirmKey, wire.Question(wire.Environment, wire.Release)),
		state)
	for _, n := range []int{1, 10, 100} {
		var b []byte
		for i := range n {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, question(wire.SurveyKey(i), wire.Question(wire.Environment, "v"))...)
		}
		s.survey[n] = required(string(b), "n="+strconv.Itoa(n))
		s.surveyed[n] = complete(wire.Surveyed(wire.Environment, n))
	}
	return s
}

const serverInfo = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"1.0.0"}}`

func complete(text string) []byte {
	return fmt.Appendf(nil, `,"result":{"resultType":"complete","content":[{"type":"text","text":%q}],%s}}`, text, serverInfo)
}

func question(key, message string) string {
	return fmt.Sprintf(`%q:{"method":"elicitation/create","params":{"mode":"form","message":%q,"requestedSchema":%s}}`, key, message, wire.ConfirmSchema)
}

func required(questions, state string) []byte {
	return fmt.Appendf(nil, `,"result":{"resultType":"input_required","inputRequests":{%s},"requestState":%q,%s}}`, questions, state, serverInfo)
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

// read decodes a message into v. It reports false when the request has been
// refused.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q request
	if !read(w, r, &q) {
		return
	}
	rest, err := s.answer(&q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := make([]byte, 0, len(`{"jsonrpc":"2.0","id":`)+len(q.ID)+len(rest))
	out = append(append(append(out, `{"jsonrpc":"2.0","id":`...), q.ID...), rest...)
	w.Header()["Content-Type"] = s.json
	_, _ = w.Write(out)
}

func (s *server) answer(q *request) ([]byte, error) {
	p := &q.Params
	switch p.Name {
	case wire.Echo:
		return s.hello, nil
	case wire.Sink:
		return s.ok, nil
	case wire.Deploy:
		return s.answerDeploy(p.Arguments, p.RequestState)
	case wire.Survey:
		_, number, _ := bytes.Cut(p.Arguments, []byte(`"n":`))
		n, err := strconv.Atoi(string(bytes.TrimSuffix(number, []byte("}"))))
		if p.RequestState == "" {
			return s.survey[n], err
		}
		return s.surveyed[n], err
	}
	return nil, fmt.Errorf("no such tool: %q", p.Name)
}

func (s *server) answerDeploy(arguments json.RawMessage, state string) ([]byte, error) {
	switch {
	case state == "" && s.seals:
		return bytes.Replace(s.deploy, []byte(place),
			[]byte(s.sealer.Seal(wire.Deploy, string(arguments))), 1), nil
	case state == "":
		return s.deploy, nil
	case s.seals:
		return s.deployed, s.sealer.Open(state, wire.Deploy, string(arguments))
	}
	return s.deployed, nil
}
